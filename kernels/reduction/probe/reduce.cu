// SPDX-License-Identifier: Apache-2.0
// The case study of Zhang et al.: the same sum by one thread, a warp, a block and the whole GPU, with every
// way to wait for each other.
#include <memory>

#include "kernels/reduction/kernels.cuh"
#include "kernels/reduction/probe/cub_sum.hpp"
#include "kernels/reduction/probe/experiments.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/on_chip_sum.cuh"
#include "measure/gpu/methods/on_chip_ways.cuh"

namespace tessera::probe {
namespace {

namespace red = tessera::reduction;

/// Small whole numbers: every order of additions gives the same.
std::vector<double> numbers(std::size_t count, unsigned seed) {
  std::vector<double> all(count);
  unsigned state = seed * 2654435761u + 12345u;
  for (auto& one : all) one = ((state = state * 1664525u + 1013904223u) >> 20) % 1000;
  return all;
}

struct OnChip {
  Context const& context;
  Probe& probe;
  std::vector<double> host = numbers(1024, context.seed);
  DeviceBuffer<double> data{1024};

  template <class Sum>
  void add(std::string const& id, std::string const& what, int elements, int threads,
           std::string const& valid = {}) {
    auto const cost =
        on_chip_cycles<Sum>(context, data, host, elements, threads, 64, 1088, context.quick ? 5 : 25);
    auto figure =
        figure_of({id,
                   what,
                   "cycle",
                   "repeat difference",
                   {{"threads", threads}, {"elements", elements}},
                   valid.empty() ? "one block, data in shared memory, the load of it included" : valid},
                  cost.cycles);
    figure.verified = cost.right;
    probe.figures.push_back(figure);
  }
};

void measure_on_chip(Context const& context, Probe& probe) {
  OnChip on_chip{context, probe};
  on_chip.data.upload(on_chip.host);
  on_chip.add<SerialSum>("reduce.warp.serial", "sum of 32 doubles by one thread", 32, 32);
  on_chip.add<WarpTree<TreeSync::none>>("reduce.warp.no_sync", "the same by a tree in shared memory, no sync",
                                        32, 32, "right by luck: nothing orders the lanes");
  on_chip.add<WarpTree<TreeSync::tile>>("reduce.warp.tile", "the same, tile group sync", 32, 32);
  on_chip.add<WarpTree<TreeSync::coalesced>>("reduce.warp.coalesced", "the same, coalesced group sync", 32,
                                             32);
  on_chip.add<WarpShuffles<false>>("reduce.warp.tile_shuffle", "the same by shuffles of a tile group", 32,
                                   32);
  on_chip.add<WarpShuffles<true>>("reduce.warp.coalesced_shuffle",
                                  "the same by shuffles of a coalesced group", 32, 32);
  on_chip.add<LoadOnly>("reduce.warp.load", "what all of them have: a load that waits for the result before",
                        32, 32, "to be taken off; no sum");
  on_chip.add<SharedOut<32>>("reduce.block", "sum of 1024 doubles", 1024, 32);
  on_chip.add<SharedOut<1024>>("reduce.block", "sum of 1024 doubles", 1024, 1024);
}

/// One way for the whole GPU: `blocks` blocks of 512 threads, eight vectors in flight each.
struct DeviceWay {
  std::string name, what;
  Shape first;
  void (*kernel)(red::Arguments) = nullptr;  ///< null: CUB, which chooses for itself
  bool second = false, second_programmatic = false;
};

template <red::Variant V>
DeviceWay way(std::string name, std::string what, unsigned blocks) {
  DeviceWay one;
  one.name = std::move(name);
  one.what = std::move(what);
  one.first.blocks = blocks;
  one.first.threads = 512;
  one.kernel = red::sum_kernel<float, V, red::Loads::vector, 512, 8>;
  return one;
}

std::vector<DeviceWay> device_ways(unsigned sms) {
  using red::Variant;
  std::vector<DeviceWay> all = {
      way<Variant::two_launches>("two_launches", "implicit barrier: two launches", 2 * sms),
      way<Variant::two_launches>("two_launches_pdl", "two launches, the second programmatic", 2 * sms),
      way<Variant::cooperative>("grid_sync", "grid sync of cooperative groups", 2 * sms),
      way<Variant::grid_barrier>("own_barrier", "own grid barrier, split", 2 * sms),
      way<Variant::last_block>("last_block", "the last block adds up, by a counter", 2 * sms),
      way<Variant::data_token>("data_token", "the last block takes sums that carry their launch's number",
                               2 * sms)};
  all[0].second = all[1].second = all[1].second_programmatic = true;
  all[2].first.cooperative = true;
  DeviceWay cub;
  cub.name = "cub";
  cub.what = "CUB " + cub_version();
  all.push_back(cub);
  return all;
}

__global__ void fill_floats(float* x, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * blockDim.x)
    x[i] = static_cast<float>((i * 2654435761u >> 7) % 2);
}
__global__ void count_ones(float const* x, std::size_t count, unsigned long long* ones) {
  unsigned long long mine = 0;
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * blockDim.x)
    mine += x[i] == 1.0f;
  atomicAdd(ones, mine);
}

void measure_device(Context const& context, Probe& probe) {
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  std::size_t const most = std::size_t{1} << 30;  // bytes
  // Ones and zeros: up to 2^24 of them every float sum is exact; beyond, within its rounding.
  DeviceBuffer<float> x(most / 4), out(16);
  DeviceBuffer<red::Workspace> workspace(1);
  DeviceBuffer<unsigned long long> ones(1);
  DeviceBuffer<char> for_cub(cub_workspace(static_cast<unsigned>(most / 4)));
  fill_floats<<<1024, 256, 0, context.stream>>>(x.get(), most / 4);
  launched();
  EventTimer timer;
  for (std::size_t const bytes : {std::size_t{1} << 24, most}) {
    int const parts = static_cast<int>(most / bytes < 16 ? most / bytes : 16);
    int const calls = bytes == most ? 2 : 16;
    auto const part = [&](int i) { return x.get() + static_cast<std::size_t>(i % parts) * (bytes / 4); };
    ones.fill(context.stream, 0);
    count_ones<<<1024, 256, 0, context.stream>>>(part(0), bytes / 4, ones.get());
    launched();
    auto const expected = static_cast<double>(ones.download().front());
    auto const ways = device_ways(sms);
    std::vector<std::unique_ptr<Graph>> graphs;
    std::vector<bool> right;
    for (auto const& one : ways) {
      if (one.kernel != nullptr) load(one.kernel);
      auto const submit = [&](int i) {
        if (one.kernel == nullptr)
          return ok(cub_sum(for_cub.get(), for_cub.size(), part(i), static_cast<unsigned>(bytes / 4),
                            out.get() + i, context.stream));
        red::Arguments arguments{red::Cut(part(i), bytes / 4, 4),
                                 out.get() + i,
                                 workspace.get(),
                                 {&workspace.get()->stall, 1'000'000'000}};
        arguments.barrier = workspace.get()->barriers[0];
        launch(one.first, context.stream, one.kernel, arguments);
        Shape second;
        second.threads = red::k_second_threads;
        second.programmatic = one.second_programmatic;
        if (one.second)
          launch(second, context.stream, red::second_kernel<float, red::k_second_threads>, arguments,
                 one.first.blocks.x);
      };
      out.fill(context.stream, 0xFF);
      submit(0);
      double const got = out.download().front();
      right.push_back(got >= expected * (1 - 1e-6) && got <= expected * (1 + 1e-6));
      graphs.push_back(std::make_unique<Graph>(context.stream, [&] {
        for (int i = 0; i < calls; ++i) submit(i);
      }));
    }
    std::vector<std::vector<double>> ns(ways.size());
    for (int round = -1; round < (context.quick ? 5 : 21); ++round)
      for (std::size_t w = 0; w < ways.size(); ++w) {
        graphs[w]->replay(context.stream);
        double const one = graphs[w]->ns(context.stream, timer) / calls;
        if (round >= 0) ns[w].push_back(static_cast<double>(bytes) / one);
      }
    for (std::size_t w = 0; w < ways.size(); ++w) {
      auto figure =
          figure_of({"reduce.device." + ways[w].name,
                     "sum of floats, " + ways[w].what,
                     "1e9 byte/s",
                     "slope",
                     {{"bytes", static_cast<double>(bytes)}},
                     "replays of a graph; other data each time, 256 MiB and more in turn: from DRAM"},
                    ns[w]);
      figure.verified = right[w];
      if (ways[w].kernel != nullptr) {
        figure.at["blocks"] = ways[w].first.blocks.x;
        figure.at["threads"] = 512;
      }
      // The paper's Table 6 gives no size: its figures share this row.
      if (bytes == most) figure.at["large_input"] = 1;
      probe.figures.push_back(figure);
    }
  }
}

}  // namespace

void measure_reduce(Context const& context, Probe& probe) {
  measure_on_chip(context, probe);
  measure_device(context, probe);
}

}  // namespace tessera::probe
