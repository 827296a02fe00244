// SPDX-License-Identifier: Apache-2.0
// Barriers of 2 to all GPUs inside running kernels: one block a GPU, and whole grids. In the row of the
// multi-grid groups of Zhang et al. (Fig. 8 and 9), which CUDA 13 no longer has.
#include <cooperative_groups.h>

#include <algorithm>
#include <utility>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/peer_pointers.cuh"
#include "tessera/sync/peer_barrier.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned long long k_deadline_ns = 1'000'000'000;
constexpr int k_most_rounds = 4096;
constexpr int k_warm_up = 32;
constexpr int k_threads = 256;
constexpr unsigned k_line = 32,
                   k_copies_apart = 1024;  // words: 128 bytes; 4 KB, the other half of an H200's L2

enum class How {
  party_is_block,     ///< PeerBarrier of all blocks of all GPUs
  first_block,        ///< a GPU's block 0 waits for its blocks' words, and tells the others
  last_block,         ///< PeerGridBarrier
  apart,              ///< the same, with a line for each word, and two copies of them
  counter,            ///< each block adds to a counter on every GPU, and looks at its own GPU's
  between_grid_syncs  ///< the grid's cooperative sync, block 0's PeerBarrier, the grid's sync
};

/// What a GPU's kernel gets.
struct OneGpu {
  PeerWords words;
  BarrierWords blocks;
  PeerPointers<unsigned> cells;  ///< on each GPU: two by turns for every thread of every block of every GPU
  unsigned gpu = 0;
  int rounds = 0;
  unsigned* stamps = nullptr;  ///< cycles of each round, of block 0; null: data are checked instead
  unsigned long long* span = nullptr;
  unsigned* wrong = nullptr;
  DeadlineWatch<> watch = {};
};

template <How H>
struct AnyBarrier;
template <>
struct AnyBarrier<How::first_block> {
  OneGpu const& a;
  unsigned epoch = 0;
  __device__ explicit AnyBarrier(OneGpu const& all) : a(all) {}
  __device__ bool sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x == 0) store_release<Scope::device>(a.blocks.words + blockIdx.x, epoch);
    if (blockIdx.x == 0) {
      if (!wait_for_epochs<Scope::device, Group::block>(a.blocks.words, gridDim.x, EveryParty{}, epoch, a.gpu,
                                                        a.watch))
        return false;
      if (threadIdx.x < static_cast<unsigned>(a.cells.count))
        store_release<Scope::system>(a.words.at[threadIdx.x] + a.gpu, epoch);
    }
    return wait_for_epochs<Scope::system, Group::block>(a.words.at[a.gpu], a.words.gpus, EveryParty{}, epoch,
                                                        a.gpu, a.watch);
  }
};
template <>
struct AnyBarrier<How::party_is_block> {
  PeerBarrier<DeadlineWatch<>> barrier;
  __device__ explicit AnyBarrier(OneGpu const& a)
      : barrier(a.words, a.gpu, a.gpu * gridDim.x + blockIdx.x, a.watch) {}
  __device__ bool sync() { return barrier.sync(); }
};
template <>
struct AnyBarrier<How::counter> {
  OneGpu const& a;
  unsigned epoch = 0;
  __device__ explicit AnyBarrier(OneGpu const& all) : a(all) {}
  __device__ bool sync() {
    auto const gpus = static_cast<unsigned>(a.cells.count);
    ++epoch;
    __syncthreads();
    if (threadIdx.x < gpus) add_release<Scope::system>(a.words.at[threadIdx.x], 1);
    bool ok = true;
    if (threadIdx.x == 0)
      ok = wait_until<Scope::system>(a.words.at[a.gpu], epoch * gpus * gridDim.x, a.watch, {0, a.gpu, 0});
    return group_all<Group::block>(ok);
  }
};
template <>
struct AnyBarrier<How::last_block> {
  PeerGridBarrier<DeadlineWatch<>> barrier;
  __device__ explicit AnyBarrier(OneGpu const& a) : barrier(a.words, a.blocks, a.gpu, a.watch) {}
  __device__ bool sync() { return barrier.sync(); }
};
template <>
struct AnyBarrier<How::apart> {
  OneGpu const& a;
  unsigned epoch = 0;
  __device__ explicit AnyBarrier(OneGpu const& all) : a(all) {}
  __device__ static unsigned* word(unsigned* words, unsigned copy, unsigned gpu) {
    return words + copy * k_copies_apart + gpu * k_line;
  }
  __device__ bool sync() {
    auto const gpus = static_cast<unsigned>(a.cells.count);
    unsigned const lane = threadIdx.x;
    ++epoch;
    __syncthreads();
    bool ok = true;
    if (lane < 32) {
      unsigned before = lane == 0 ? detail::count_arrival(a.blocks.words) : 0;
      before = detail::from_first_lane(before);
      if (before + 1 == epoch * gridDim.x && lane < 2 * gpus)
        store_release<Scope::system>(word(a.words.at[lane / 2], lane % 2, a.gpu), epoch);
      if (lane < gpus)
        ok = wait_until<Scope::system>(word(a.words.at[a.gpu], blockIdx.x % 2, lane), epoch, a.watch,
                                       {0, a.gpu, lane});
    }
    return group_all<Group::block>(ok);
  }
};
template <>
struct AnyBarrier<How::between_grid_syncs> {
  PeerBarrier<DeadlineWatch<>> barrier;
  bool ok = true;
  __device__ explicit AnyBarrier(OneGpu const& a) : barrier(a.words, a.gpu, a.gpu, a.watch) {}
  /// Goes on without the peers when one has not come: the grid's own sync has no deadline, and all blocks
  /// have to come to it.
  __device__ bool sync() {
    auto const grid = cooperative_groups::this_grid();
    grid.sync();
    if (blockIdx.x == 0 && ok) ok = barrier.sync();
    grid.sync();
    return true;
  }
};

/// The word that a thread writes in a round.
__device__ inline unsigned word_of(unsigned round, unsigned party) { return round * 0x9E3779B9u + party; }

template <How H>
__global__ void __launch_bounds__(k_threads) meet(__grid_constant__ OneGpu const a) {
  __shared__ unsigned stamps[k_most_rounds];
  AnyBarrier<H> barrier(a);
  bool const checks = a.stamps == nullptr;
  unsigned const parties = static_cast<unsigned>(a.cells.count) * gridDim.x,
                 party = a.gpu * gridDim.x + blockIdx.x;
  unsigned wrong = 0;
  unsigned long long begin_ns = 0;
  long long begin = 0;
  for (int i = 0; i < a.rounds; ++i) {
    auto const round = static_cast<unsigned>(i + 1);
    // Two halves by turns: who is a barrier ahead does not write what others still read.
    unsigned const half = round % 2 * parties * blockDim.x;
    long long const before = cycles();
    if (i == k_warm_up) {
      begin_ns = global_ns();
      begin = before;
    }
    if (checks)
      for (int gpu = 0; gpu < a.cells.count; ++gpu)
        a.cells.at[gpu][half + party * blockDim.x + threadIdx.x] = word_of(round, party);
    if (!barrier.sync()) break;
    if (checks) {
      unsigned const other = (party + round) % parties;
      wrong += a.cells.at[a.gpu][half + other * blockDim.x + threadIdx.x] != word_of(round, other);
    } else if (threadIdx.x == 0 && blockIdx.x == 0) {
      stamps[i] = static_cast<unsigned>(cycles() - before);
    }
  }
  if (wrong > 0) atomicAdd(a.wrong, wrong);
  if (threadIdx.x != 0 || blockIdx.x != 0 || checks) return;
  a.span[0] = global_ns() - begin_ns;
  a.span[1] = static_cast<unsigned long long>(cycles() - begin);
  for (int i = 0; i < a.rounds; ++i) a.stamps[i] = stamps[i];
}

struct Variant {
  char const* id;
  char const* what;
  How how;
  bool whole_grid;
  bool in_host_memory;
};
constexpr Variant k_variants[] = {
    {"peer.barrier", "one block a GPU: words in every GPU's memory", How::party_is_block, false, false},
    {"peer.barrier.grid", "whole grids, block 0 waits for its GPU's blocks and tells the other GPUs",
     How::first_block, true, false},
    {"peer.barrier.grid.every_block", "whole grids, each block tells all GPUs", How::party_is_block, true,
     false},
    {"peer.barrier.grid.counter", "whole grids, each block adds to a counter on every GPU", How::counter,
     true, false},
    {"peer.barrier.grid.last_block",
     "whole grids, the last block of a GPU tells the others (PeerGridBarrier)", How::last_block, true, false},
    {"peer.barrier.grid.apart", "the same, with words in lines of their own, and in two copies", How::apart,
     true, false},
    {"peer.barrier.grid.cooperative", "whole grids, grid sync before and after block 0's barrier",
     How::between_grid_syncs, true, false},
    {"peer.barrier.grid.host_memory", "the same with words in the host's memory, as in NVIDIA's samples",
     How::between_grid_syncs, true, true},
};

/// Words in the host's memory that all GPUs reach.
class HostWords {
 public:
  explicit HostWords(std::size_t size) : size_(size) {
    ok(cudaHostAlloc(&data_, size * sizeof(unsigned), cudaHostAllocPortable | cudaHostAllocMapped));
    clear();
  }
  ~HostWords() { cudaFreeHost(data_); }
  HostWords(HostWords const&) = delete;
  HostWords& operator=(HostWords const&) = delete;
  unsigned* get() const { return data_; }
  void clear() {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = 0;
  }

 private:
  unsigned* data_ = nullptr;
  std::size_t size_;
};

class Field {
 public:
  Field(Team const& team, int most_blocks)
      : team_(team),
        words_(team, std::max<std::size_t>(static_cast<std::size_t>(team.size() * most_blocks),
                                           k_copies_apart + k_most_gpus * k_line)),
        block_words_(team, static_cast<std::size_t>(most_blocks)),
        cells_(team, static_cast<std::size_t>(2 * team.size() * most_blocks * k_threads)),
        stamps_(team, k_most_rounds),
        span_(team, 2),
        wrong_(team, 1),
        stalls_(team, 1),
        host_words_(PeerWords::most_gpus) {
    team.preload(meet<How::first_block>);
    team.preload(meet<How::party_is_block>);
    team.preload(meet<How::counter>);
    team.preload(meet<How::last_block>);
    team.preload(meet<How::apart>);
    team.preload(meet<How::between_grid_syncs>);
  }

  /// One launch on every GPU. True if every word was right and no deadline was met.
  bool play(Variant const& variant, int blocks, int threads, int rounds, bool checks) {
    words_.clear();
    block_words_.clear();
    cells_.clear();
    wrong_.clear();
    stalls_.clear();
    team_.wait();
    host_words_.clear();
    team_.each([&](int rank) { launch(variant, rank, blocks, threads, rounds, checks); });
    team_.wait();
    bool right = true;
    for (int rank = 0; rank < team_.size(); ++rank)
      right = right && wrong_.download(rank)[0] == 0 && stalls_.download(rank)[0].state == 0;
    return right;
  }

  /// The last play's rounds behind its warm-up, ns, as the first GPU's block 0 saw them.
  std::vector<double> rounds_ns(int rounds) const {
    auto const span = span_.download(0);
    auto const cycles = stamps_.download(0);
    double const ns_per_cycle = static_cast<double>(span[0]) / static_cast<double>(span[1] > 0 ? span[1] : 1);
    std::vector<double> result;
    for (int i = k_warm_up; i < rounds; ++i)
      result.push_back(cycles[static_cast<std::size_t>(i)] * ns_per_cycle);
    return result;
  }

 private:
  void launch(Variant const& variant, int rank, int blocks, int threads, int rounds, bool checks) {
    auto const gpus = static_cast<unsigned>(team_.size());
    OneGpu a;
    a.words.gpus = gpus;
    a.words.parties = variant.how == How::party_is_block ? gpus * static_cast<unsigned>(blocks) : gpus;
    for (unsigned gpu = 0; gpu < gpus; ++gpu)
      a.words.at[gpu] = variant.in_host_memory ? host_words_.get() : words_.at(static_cast<int>(gpu));
    // One array for all: one store tells everyone.
    if (variant.in_host_memory) a.words.gpus = 1;
    a.blocks = {block_words_.at(rank), static_cast<unsigned>(blocks)};
    a.cells = pointers(cells_, team_.size());
    a.gpu = static_cast<unsigned>(rank);
    a.rounds = rounds;
    a.stamps = checks ? nullptr : stamps_.at(rank);
    a.span = span_.at(rank);
    a.wrong = wrong_.at(rank);
    a.watch = {stalls_.at(rank), k_deadline_ns};
    void* arguments[] = {&a};
    auto const kernel = [&] {
      switch (variant.how) {
        case How::first_block: return meet<How::first_block>;
        case How::party_is_block: return meet<How::party_is_block>;
        case How::counter: return meet<How::counter>;
        case How::last_block: return meet<How::last_block>;
        case How::apart: return meet<How::apart>;
        default: return meet<How::between_grid_syncs>;
      }
    }();
    ok(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                   dim3(static_cast<unsigned>(threads)), arguments, 0, team_.stream(rank)));
  }

  Team const& team_;
  TeamBuffer<unsigned> words_, block_words_, cells_, stamps_;
  TeamBuffer<unsigned long long> span_;
  TeamBuffer<unsigned> wrong_;
  TeamBuffer<StallRecord> stalls_;
  HostWords host_words_;
};

}  // namespace

void measure_peer_barrier(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  int const sms = context.device.multiProcessorCount;
  int const rounds = context.quick ? 500 : 2000, launches = context.quick ? 2 : 5;
  for (int gpus = 2; gpus <= static_cast<int>(devices.size()); ++gpus) {
    Team const team({devices.begin(), devices.begin() + gpus});
    Field field(team, sms);
    for (auto const& variant : k_variants) {
      int const blocks = variant.whole_grid ? sms : 1, threads = variant.whole_grid ? k_threads : 32;
      bool right = field.play(variant, blocks, threads, context.quick ? 2'000 : 20'000, true);
      std::vector<double> ns;
      for (int i = 0; i < launches; ++i) {
        right = field.play(variant, blocks, threads, rounds, false) && right;
        auto const more = field.rounds_ns(rounds);
        ns.insert(ns.end(), more.begin(), more.end());
      }
      auto figure = figure_of({variant.id,
                               variant.what,
                               "ns",
                               "stamps",
                               {{"gpus", gpus}, {"blocks", blocks}, {"threads", threads}},
                               "all arrive together; blocks in a loop of barriers"},
                              std::move(ns));
      figure.verified = right;
      probe.figures.push_back(std::move(figure));
    }
  }
}

}  // namespace tessera::probe
