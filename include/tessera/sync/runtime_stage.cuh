// SPDX-License-Identifier: Apache-2.0
// A stage whose plan is known only when the program runs: the same calls as StageView, over a plain value
// that the host fills from a plan (run/runtime_tables.hpp). Costs a few table look-ups that StageView's types
// save.
#pragma once

#include "chain_memory.cuh"
#include "group.cuh"
#include "launch.cuh"
#include "policy.cuh"
#include "wait.cuh"

namespace tessera {

/// StallRecord::semaphore of a wait kernel, which waits for the first block of the stage before.
constexpr long long k_no_semaphore = -1;

constexpr int k_runtime_operands = 4;
constexpr int k_runtime_sets = 4;

/// One dimension of a set: coordinate c is at `scale` times c / width, or times c % width under `rest`.
struct RuntimeDimension {
  int width = 1;
  int scale = 0;  ///< 0: all coordinates share
  int extent = 1;
  int whole = 1;  ///< extent / width
  bool rest = false;
  unsigned long long reciprocal = 0;  ///< ceil(2^64 / width); a width of 1 is not divided by

  TESSERA_HOST_DEVICE constexpr int quotient(int at) const {
    if (width == 1) return at;
    // The upper 64 bits of a product of 32 and 64 bits.
    unsigned long long const c = static_cast<unsigned>(at);
    return static_cast<int>((c * (reciprocal >> 32) + (c * (reciprocal & 0xffffffffu) >> 32)) >> 32);
  }
  TESSERA_HOST_DEVICE constexpr int index(int at) const {
    int const group = quotient(at);
    return scale * (rest ? at - group * width : group);
  }
  /// Coordinates come in runs that share a semaphore: where the n-th run after that of `at` begins, n > 0.
  /// The extent, where there is none.
  TESSERA_HOST_DEVICE constexpr int run_after(int at, int n) const {
    if (scale == 0) return extent;
    if (rest) return n < extent - at ? at + n : extent;
    int const group = quotient(at);
    return n <= whole - group ? (group + n) * width : extent;
  }
  /// How many coordinates share this one's semaphore.
  TESSERA_HOST_DEVICE constexpr int members(int at) const {
    if (scale == 0) return extent;
    int const first = quotient(at) * width;
    if (rest) return whole + (at - first < extent - whole * width ? 1 : 0);
    return extent - first < width ? extent - first : width;
  }
};

/// Semaphores of one producer under one policy, in a form that costs a kernel little code: with a policy's
/// own maps a stage had 5500 instructions, and blocks that live for microseconds waited for them to be
/// fetched.
struct RuntimeSet {
  RuntimeDimension dimension[k_max_rank];
  int first = 0;  ///< index in the plan's array
  int splits = 1;
  int const* table = nullptr;  ///< semaphore of each linear tile, from 0; null: the product of the dimensions
  int const* members = nullptr;  ///< of a table: tiles of each semaphore

  // Of a grid of Rank dimensions; what is behind them is not looked at.
  template <int Rank = k_max_rank>
  TESSERA_HOST_DEVICE constexpr int linear_of(Tile const& tile) const {
    int linear = 0;
    for (int d = Rank - 1; d >= 0; --d) linear = linear * dimension[d].extent + tile.at[d];
    return linear;
  }
  template <int Rank = k_max_rank>
  TESSERA_HOST_DEVICE constexpr int index_of(Tile const& tile) const {
    if (table != nullptr) return first + table[linear_of<Rank>(tile)];
    int index = first;
    for (int d = 0; d < Rank; ++d) index += dimension[d].index(tile.at[d]);
    return index;
  }
  /// Posts per launch to the tile's semaphore.
  template <int Rank = k_max_rank>
  TESSERA_HOST_DEVICE constexpr unsigned posts_of(Tile const& tile) const {
    if (table != nullptr) return static_cast<unsigned>(splits * members[table[linear_of<Rank>(tile)]]);
    int posts = splits;
    for (int d = 0; d < Rank; ++d) posts *= dimension[d].members(tile.at[d]);
    return static_cast<unsigned>(posts);
  }
};

/// A policy's map over a producer's grid, as a RuntimeSet. Precondition: fewer than 2^31 semaphores and
/// tiles.
TESSERA_HOST_DEVICE constexpr RuntimeSet runtime_set(SemaphoreMap const& map, TileGrid const& grid,
                                                     int splits, long long first) {
  RuntimeSet set;
  set.first = static_cast<int>(first);
  set.splits = splits;
  int scale = 1;
  for (int d = 0; d < k_max_rank; ++d) {
    auto const& from = map.dimension[d];
    auto& to = set.dimension[d];
    bool const divides = from.grouping == Grouping::block || from.grouping == Grouping::stride;
    to.extent = grid.extent[d];
    to.width = divides ? from.width : 1;
    to.rest = from.grouping == Grouping::stride;
    to.whole = to.extent / to.width;
    if (to.width > 1) to.reciprocal = ~0ULL / static_cast<unsigned>(to.width) + 1;
    int const count = from.count(to.extent);
    // One semaphore along the dimension, whatever the grouping says.
    to.scale = count == 1 ? 0 : scale;
    scale *= count;
  }
  return set;
}

/// One wait: the semaphore and its posts per launch.
struct RuntimeWait {
  int semaphore;
  unsigned posts;
};

/// What reading an operand waits for. Tile t's waits are `waits[offsets[t]]` to `waits[offsets[t + 1]]`; both
/// null where no semaphores say when the operand is there.
struct RuntimeOperand {
  bool produced = false;
  bool waits_for_grid = false;  ///< some producer is known to be complete only by pdl_wait()
  bool has_set = false;
  RuntimeSet set;  ///< of the operand's first dependence, for wait(operand, tile)
  int const* offsets = nullptr;
  RuntimeWait const* waits = nullptr;
};

/// One stage of a plan, for a kernel. Trivially copyable; its pointers are device memory of the chain that
/// made it. The fields mean what they mean in a generated header.
struct RuntimeStage {
  int index = 0;
  TileGrid grid;
  int splits = 1;
  Start start = Start::block_index;
  bool custom_order = false;
  bool reorder_loads = false;
  bool plain_store = false;
  int persistent_blocks = 0;  ///< 0: a block for each tile and split; n: block i has numbers i, i + n, ...
  bool triggers_at_start = false;
  bool stores_after_grid = false;         ///< wait_before_store() waits for the launches before
  bool completes_after_previous = false;  ///< its blocks leave after them; workers do so in draw_next()
  bool announces_start = false;
  bool needs_epoch = false;
  int const* order = nullptr;  ///< tile at each position; null: row major
  RuntimeOperand operand[k_runtime_operands];
  int posts = 0;
  RuntimeSet post[k_runtime_sets];
  int before_stores = 0;
  RuntimeWait const* before_store = nullptr;

  /// Numbers to compute: tiles times splits.
  TESSERA_HOST_DEVICE constexpr long long blocks() const { return grid.tiles() * splits; }
  /// Blocks that are launched.
  TESSERA_HOST_DEVICE constexpr long long launched() const {
    return persistent_blocks > 0 && persistent_blocks < blocks() ? persistent_blocks : blocks();
  }
};

namespace detail {

/// One thread posts a tile, for so many of its splits, to one set, behind a fence.
template <Scope S, int Rank = k_max_rank>
TESSERA_HOST_DEVICE inline void post_to_set(RuntimeSet const& set, bool plain_store,
                                            ChainMemory const& memory, Tile const& tile, unsigned epoch,
                                            unsigned splits) {
  unsigned* const semaphore = memory.semaphores + set.template index_of<Rank>(tile);
  if (plain_store && set.template posts_of<Rank>(tile) == 1)
    store_after_fence<S>(semaphore, epoch + 1u);
  else
    add_after_fence<S>(semaphore, splits);
}

}  // namespace detail

/// As StageView, for a RuntimeStage. The same rule holds: every block calls start() once and post() once; a
/// block of a persistent grid goes on with next() after each post().
///
/// Make it in the kernel, of a stage in its __grid_constant__ parameters. A view that is itself a parameter,
/// passed by value, is a RuntimeStageRef: otherwise each thread copies 1.4 KB to its stack first.
/// `Stored`: RuntimeStage, or a reference to one that lies in device memory.
template <class Watch = NoWatch, Scope S = Scope::device, class Stored = RuntimeStage>
class RuntimeStageView {
 public:
  RuntimeStageView() = default;
  TESSERA_HOST_DEVICE RuntimeStageView(RuntimeStage const& stage, ChainMemory const& memory,
                                       Watch const& watch = {})
      : stage_(stage), memory_(memory), watch_(watch) {}

  TESSERA_HOST_DEVICE Tile start(long long block) {
    if (stage_.triggers_at_start) pdl_trigger();
    unsigned epoch = 0;
    auto const blocks = static_cast<unsigned long long>(stage_.blocks());
    if (stage_.start == Start::ticket) {
      auto const launched = static_cast<unsigned long long>(stage_.launched());
      unsigned long long const ticket =
          draw_for_block<false>(detail::counter(memory_, stage_.index, detail::Counter::started));
      block = static_cast<long long>(ticket % launched);
      epoch = static_cast<unsigned>(ticket / launched);
    } else {
      if (stage_.announces_start && is_leader<Group::block>())
        count_one(detail::counter(memory_, stage_.index, detail::Counter::started));
      if (stage_.needs_epoch)
        epoch = static_cast<unsigned>(
            load_counter(detail::counter(memory_, stage_.index, detail::Counter::left)) / blocks);
    }
    return begin(block, epoch);
  }
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  __device__ Tile start() {
    return start(blockIdx.x + 1LL * gridDim.x * (blockIdx.y + 1LL * gridDim.y * blockIdx.z));
  }
#endif

  /// The next of a persistent block's numbers, already started; false: there is none, leave. Any other block
  /// has one number.
  TESSERA_HOST_DEVICE bool next() {
    if (stage_.persistent_blocks == 0 || is_last()) return false;
    begin(number_ + stage_.launched(), epoch_);
    return true;
  }

  TESSERA_HOST_DEVICE Tile begin(long long block, unsigned epoch) {
    epoch_ = epoch;
    number_ = static_cast<int>(block);
    // In 32 bits, as RuntimeSet: describe_stages() refuses stages of 2^31 blocks.
    auto const number = static_cast<unsigned>(block);
    if (!stage_.custom_order) {
      auto const tiles = static_cast<unsigned>(stage_.grid.tiles());
      split_ = static_cast<int>(number / tiles);
      linear_ = static_cast<int>(number % tiles);
    } else {
      auto const splits = static_cast<unsigned>(stage_.splits);
      split_ = static_cast<int>(number % splits);
      auto const position = static_cast<int>(number / splits);
      linear_ = stage_.order != nullptr ? stage_.order[position] : position;
    }
    auto rest = static_cast<unsigned>(linear_);
    for (int d = 0; d < k_max_rank; ++d) {
      auto const extent = static_cast<unsigned>(stage_.grid.extent[d]);
      tile_.at[d] = static_cast<int>(rest % extent);
      rest /= extent;
    }
    return tile_;
  }

  TESSERA_HOST_DEVICE Tile tile() const { return tile_; }
  TESSERA_HOST_DEVICE long long linear() const { return linear_; }
  TESSERA_HOST_DEVICE int split() const { return split_; }
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }
  TESSERA_HOST_DEVICE RuntimeStage const& stage() const { return stage_; }
  TESSERA_HOST_DEVICE bool has_producer_at(int operand) const { return stage_.operand[operand].produced; }

  /// As StageView::wait. Every call polls: there is no memory of the semaphore before.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    auto const& operand = stage_.operand[I];
    if (operand.waits_for_grid) pdl_wait();
    if (!operand.has_set) return true;
    return together<G, Watch>(!is_leader<G>() ||
                              wait_for(operand.set.index_of(producer), operand.set.posts_of(producer)));
  }

  /// As StageView::wait_all: everything that this block's tile reads through the operand.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    if (operand.waits_for_grid) pdl_wait();
    if (operand.offsets == nullptr) return true;
    return together<G, Watch>(wait_for_each<G>(operand.waits + operand.offsets[linear_],
                                               operand.offsets[linear_ + 1] - operand.offsets[linear_]));
  }

  template <int I>
  TESSERA_HOST_DEVICE bool wait_for_tma(OperandIndex<I> operand, Tile const& producer) {
    bool const ok = wait<Group::thread>(operand, producer);
    if (stage_.operand[I].produced) fence_proxy_async();
    return ok;
  }

  template <Group G = Group::block>
  TESSERA_HOST_DEVICE bool wait_before_store() {
    if (stage_.stores_after_grid) pdl_wait();
    if (stage_.before_stores == 0) return true;
    return together<G, Watch>(wait_for_each<G>(stage_.before_store, stage_.before_stores));
  }

  template <Group G = Group::block>
  TESSERA_HOST_DEVICE void post() {
    bool const counts_leaving = stage_.start == Start::block_index && stage_.needs_epoch;
    group_barrier<G>();
    if (!is_leader<G>()) return;
    if (stage_.posts > 0) fence_release<S>();
    // A constant bound: unrolled, so that the stage stays in registers and constant memory.
    for (int i = 0; i < k_runtime_sets; ++i) {
      if (i >= stage_.posts) break;
      detail::post_to_set<S>(stage_.post[i], stage_.plain_store, memory_, tile_, epoch_, 1u);
    }
    if (stage_.completes_after_previous && is_last()) pdl_wait();
    if (counts_leaving) count_one(detail::counter(memory_, stage_.index, detail::Counter::left));
  }

 private:
  TESSERA_HOST_DEVICE bool is_last() const { return number_ + stage_.launched() >= stage_.blocks(); }
  TESSERA_HOST_DEVICE bool wait_for(long long index, unsigned posts) const {
    return wait_until<S>(memory_.semaphores + index, (epoch_ + 1u) * posts, watch_,
                         WaitPlace{stage_.index, linear_, index});
  }
  template <Group G>
  TESSERA_HOST_DEVICE bool wait_for_each(RuntimeWait const* waits, int count) const {
    for (int i = share_of<G>().first; i < count; i += share_of<G>().step)
      if (!wait_for(waits[i].semaphore, waits[i].posts)) return false;
    return true;
  }

  Stored stage_;
  ChainMemory memory_;
  Watch watch_;
  Tile tile_;
  int number_ = 0;
  int linear_ = 0;
  int split_ = 0;
  unsigned epoch_ = 0;
};

/// The same for a kernel `template <class Stage> kernel(..., Stage stage)`, which takes a StageView as well:
/// small, and passed by value. The stage is in device memory (ChainViews::device_stages).
template <class Watch = NoWatch, Scope S = Scope::device>
using RuntimeStageRef = RuntimeStageView<Watch, S, RuntimeStage const&>;

/// One persistent launch: its stages, from `first_stage` on, and its tickets. `table` holds pairs (stage,
/// block number) in device memory; null: stage by stage.
struct RuntimeTickets {
  int first_stage = 0;
  int stages = 0;
  long long tickets = 0;
  int workers = 0;
  bool triggers_at_start = false;
  bool completes_after_previous = false;
  int const* table = nullptr;
};

/// What a worker has drawn. `left`: nothing is left to do.
struct RuntimeDraw {
  bool left = true;
  int stage = -1;
  long long block = 0;
  unsigned epoch = 0;
};

/// First of all in a worker: lets the launch after this one start, where the plan says so.
TESSERA_HOST_DEVICE inline void begin_worker(RuntimeTickets const& tickets) {
  if (tickets.triggers_at_start) pdl_trigger();
}

/// Draws the next block for a persistent worker, as Worker::next() does. Called by all threads of the block.
/// `blocks(stage)` is asked only where there is no table.
template <class Blocks>
TESSERA_HOST_DEVICE inline RuntimeDraw draw_next(RuntimeTickets const& tickets, ChainMemory const& memory,
                                                 Blocks const& blocks) {
  unsigned long long const ticket =
      draw_for_block<true>(detail::counter(memory, tickets.first_stage, detail::Counter::started));
  auto const draws = static_cast<unsigned long long>(tickets.tickets + tickets.workers);
  RuntimeDraw result;
  result.epoch = static_cast<unsigned>(ticket / draws);
  auto mine = static_cast<long long>(ticket % draws);
  if (mine >= tickets.tickets) {
    if (tickets.completes_after_previous) pdl_wait();
    return result;
  }
  if (tickets.table != nullptr)
    return {false, tickets.table[2 * mine], tickets.table[2 * mine + 1], result.epoch};
  for (int s = tickets.first_stage; s < tickets.first_stage + tickets.stages; ++s) {
    if (mine < blocks(s)) return {false, s, mine, result.epoch};
    mine -= blocks(s);
  }
  return result;
}

}  // namespace tessera
