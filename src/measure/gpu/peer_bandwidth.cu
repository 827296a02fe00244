// SPDX-License-Identifier: Apache-2.0
// Bytes per second between two GPUs: by the copy engine, by stores into the peer's memory and by loads from
// it; one way, and both at once.
#include <algorithm>
#include <utility>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/host_timer.hpp"
#include "measure/gpu/methods/team.hpp"

namespace tessera::probe {
namespace {

constexpr int k_threads = 512;

__global__ void __launch_bounds__(k_threads) store_far(uint4* to, std::size_t vectors, unsigned mark) {
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * k_threads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x; i < vectors; i += step)
    to[i] = make_uint4(mark, mark, mark, static_cast<unsigned>(i));
}

/// Four loads of a thread in flight at once. `sums` has a word for each thread.
__global__ void __launch_bounds__(k_threads)
    load_far(uint4 const* from, std::size_t vectors, unsigned* sums) {
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * k_threads;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x;
  unsigned sum = 0;
  for (; i + 3 * step < vectors; i += 4 * step) {
    uint4 const a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    sum += a.x + a.w + b.x + b.w + c.x + c.w + d.x + d.w;
  }
  for (; i < vectors; i += step) sum += from[i].x + from[i].w;
  sums[static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x] = sum;
}

enum class Way { copy, store, load };

struct Transfer {
  Way way;
  char const* id;
  char const* what;
};
constexpr Transfer k_transfers[] = {
    {Way::copy, "peer.bandwidth.copy", "the copy engine writes into the peer's memory"},
    {Way::store, "peer.bandwidth.store", "a kernel's 16-byte stores into the peer's memory"},
    {Way::load, "peer.bandwidth.load", "a kernel's 16-byte loads from the peer's memory"},
};

class Link {
 public:
  Link(Team const& team, std::size_t bytes, int blocks)
      : team_(team),
        data_(team, bytes / sizeof(uint4)),
        target_(team, bytes / sizeof(uint4)),
        sums_(team, static_cast<std::size_t>(blocks) * k_threads) {
    team.preload(store_far);
    team.preload(load_far);
    team.each([&](int rank) {
      ok(cudaEventCreate(&begin_[rank]));
      ok(cudaEventCreate(&end_[rank]));
    });
  }
  ~Link() {
    for (int rank = 0; rank < 2; ++rank) {
      cudaEventDestroy(begin_[rank]);
      cudaEventDestroy(end_[rank]);
    }
  }
  Link(Link const&) = delete;
  Link& operator=(Link const&) = delete;

  /// ns of one transfer, the mean of `repeats` on a stream; of the slower GPU where both send.
  double ns(Way way, std::size_t bytes, int blocks, int repeats, bool both) {
    int const senders = both ? 2 : 1;
    for (int rank = 0; rank < senders; ++rank) {
      team_.select(rank);
      ok(cudaEventRecord(begin_[rank], team_.stream(rank)));
      for (int i = 0; i < repeats; ++i) submit(way, rank, bytes, blocks);
      ok(cudaEventRecord(end_[rank], team_.stream(rank)));
    }
    double slowest = 0;
    for (int rank = 0; rank < senders; ++rank) {
      team_.select(rank);
      ok(cudaEventSynchronize(end_[rank]));
      float ms = 0;
      ok(cudaEventElapsedTime(&ms, begin_[rank], end_[rank]));
      slowest = std::max(slowest, ms * 1e6 / repeats);
    }
    team_.select(0);
    return slowest;
  }

  /// Stores arrive, and loads get what lies there.
  bool right(std::size_t bytes, int blocks) {
    std::size_t const vectors = bytes / sizeof(uint4);
    team_.select(0);
    store_far<<<blocks, k_threads, 0, team_.stream(0)>>>(target_.at(1), vectors, 7);
    load_far<<<blocks, k_threads, 0, team_.stream(0)>>>(target_.at(1), vectors, sums_.at(0));
    launched();
    unsigned sum = 0, wanted = 0;
    for (unsigned one : sums_.download(0)) sum += one;
    auto const seen = target_.download(1);
    bool all = true;
    for (std::size_t i = 0; i < vectors; ++i) {
      wanted += 7 + static_cast<unsigned>(i);
      all = all && seen[i].x == 7 && seen[i].w == static_cast<unsigned>(i);
    }
    return all && sum == wanted;
  }

 private:
  void submit(Way way, int rank, std::size_t bytes, int blocks) {
    auto const stream = team_.stream(rank);
    std::size_t const vectors = bytes / sizeof(uint4);
    if (way == Way::copy)
      ok(cudaMemcpyPeerAsync(target_.at(1 - rank), team_.device(1 - rank), data_.at(rank), team_.device(rank),
                             bytes, stream));
    else if (way == Way::store)
      store_far<<<blocks, k_threads, 0, stream>>>(target_.at(1 - rank), vectors, 3);
    else
      load_far<<<blocks, k_threads, 0, stream>>>(data_.at(1 - rank), vectors, sums_.at(rank));
    launched();
  }

  Team const& team_;
  TeamBuffer<uint4> data_, target_;
  TeamBuffer<unsigned> sums_;
  cudaEvent_t begin_[2] = {}, end_[2] = {};
};

}  // namespace

void measure_peer_bandwidth(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  if (devices.size() < 2) return;
  Team const team({devices[0], devices[1]});
  std::size_t const most = std::size_t{256} << 20;
  int const sms = context.device.multiProcessorCount;
  Link link(team, most, 2 * sms);
  bool const right = link.right(std::size_t{4} << 20, 2 * sms);
  auto const add = [&](Transfer const& transfer, std::size_t bytes, int blocks, bool both) {
    int const repeats = bytes >= most ? 4 : 20, samples = context.quick ? 3 : 9;
    std::vector<double> rates;
    for (int i = -1; i < samples; ++i) {
      double const ns = link.ns(transfer.way, bytes, blocks, repeats, both);
      if (i >= 0) rates.push_back(static_cast<double>(bytes) / ns);
    }
    auto figure = figure_of({transfer.id,
                             transfer.what,
                             "1e9 byte/s",
                             "slope",
                             {{"bytes", static_cast<double>(bytes)}, {"gpus", 2}},
                             "back to back on a stream; of each direction where both are used"},
                            std::move(rates));
    if (transfer.way != Way::copy) figure.at["blocks"] = blocks;
    if (both) figure.at["directions"] = 2;
    figure.verified = right;
    probe.figures.push_back(std::move(figure));
  };
  for (auto const& transfer : k_transfers) {
    for (std::size_t const bytes : {std::size_t{1} << 20, std::size_t{16} << 20, most})
      add(transfer, bytes, 2 * sms, false);
    add(transfer, most, 2 * sms, true);
    if (transfer.way == Way::copy) continue;
    for (int const blocks : {8, 32}) add(transfer, most, blocks, false);
  }
}

}  // namespace tessera::probe
