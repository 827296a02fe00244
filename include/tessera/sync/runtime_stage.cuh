// SPDX-License-Identifier: Apache-2.0
// A stage whose plan is known only when the program runs: the same calls as StageView, over a plain value
// that the host fills from a plan (run/runtime_tables.hpp).
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

/// How many blocks a launch has, as what to multiply by instead of dividing by that number: a division of 64
/// bits is a page of code before a block's first wait. Made on the host where it lies in a kernel's
/// parameters.
struct LaunchedBlocks {
  unsigned blocks;
  unsigned long long reciprocal;  ///< ceil(2^63 / blocks)

  TESSERA_HOST_DEVICE constexpr LaunchedBlocks(unsigned launched)  // NOLINT: is a number
      : blocks(launched), reciprocal(((1ULL << 63) - 1) / launched + 1) {}

  /// Launches that so many blocks make; exact below 2^63.
  TESSERA_HOST_DEVICE constexpr unsigned launches(unsigned long long all) const {
    // The upper 64 bits of the product with twice the number: the quotient, or one more.
    constexpr unsigned long long k_low = 0xffffffffULL;
    unsigned long long const low = 2 * all & k_low, high = 2 * all >> 32;
    unsigned long long const by_low = reciprocal & k_low, by_high = reciprocal >> 32;
    unsigned long long const middle = high * by_low + (low * by_low >> 32);
    unsigned long long const quotient =
        high * by_high + (middle >> 32) + ((low * by_high + (middle & k_low)) >> 32);
    return static_cast<unsigned>(quotient) - (quotient * blocks > all ? 1u : 0u);
  }
};

/// One wait: the semaphore and its posts per launch.
struct alignas(8) RuntimeWait {
  int semaphore;
  unsigned posts;
};

/// Semaphores of one producer under one policy. Each tile has a number: `first` and its coordinates, scaled.
/// It is the semaphore, or its place in a table where the policy divides coordinates or is a table itself. So
/// small because a kernel fetches its parameters and its code cold, before a block's first wait.
struct RuntimeSet {
  RuntimeWait const* table = nullptr;  ///< null: the number is the semaphore, and all have the same posts
  int first = 0;
  unsigned posts = 1;          ///< per launch, without a table
  int scale[k_max_rank] = {};  ///< 0: all coordinates share a semaphore

  // Of a grid of Rank dimensions; what is behind them is not looked at.
  template <int Rank = k_max_rank>
  TESSERA_HOST_DEVICE constexpr RuntimeWait at(Tile const& tile) const {
    int number = first;
    for (int d = 0; d < Rank; ++d) number += scale[d] * tile.at[d];
    if (table != nullptr) return table[number];
    return {number, posts};
  }
  /// Coordinates along a dimension come in runs that share a semaphore: where the n-th run after that of `at`
  /// begins, n > 0, or `end`, if it is not below that. With a table each coordinate is a run of its own.
  TESSERA_HOST_DEVICE constexpr int run_after(int dimension, int at, int n, int end) const {
    return scale[dimension] == 0 || n >= end - at ? end : at + n;
  }
};
#if !defined(__CUDACC_RTC__)  // of the host alone
/// A policy's map over a producer's grid, as a RuntimeSet. Where that needs a table, its entries are added to
/// `tables` by push_back(), and the caller sets RuntimeSet::table to the place of the first one.
/// Precondition: fewer than 2^31 semaphores and tiles.
template <class Tables>
RuntimeSet runtime_set(SemaphoreMap const& map, TileGrid const& grid, int splits, long long first,
                       Tables& tables) {
  RuntimeSet set;
  int numbers = 1, shared = splits;
  bool divides = false;
  for (int d = 0; d < k_max_rank; ++d) {
    int const extent = grid.extent[d], count = map.dimension[d].count(extent);
    if (count == 1) {
      shared *= extent;
      continue;
    }
    set.scale[d] = numbers;
    numbers *= extent;
    divides = divides || count < extent;
  }
  if (!divides) {
    set.first = static_cast<int>(first);
    set.posts = static_cast<unsigned>(shared);
    return set;
  }
  for (int number = 0; number < numbers; ++number) {
    Tile tile;
    for (int d = 0; d < k_max_rank; ++d)
      if (set.scale[d] != 0) tile.at[d] = number / set.scale[d] % grid.extent[d];
    auto const semaphore = map.semaphore_of(grid, tile);
    tables.push_back(
        {static_cast<int>(first + semaphore), static_cast<unsigned>(splits * map.tiles_of(grid, semaphore))});
  }
  return set;
}
#endif
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

/// How blocks that leave are counted: number b in lane b % k_left_lanes, of which the first ones may have one
/// block more.
struct LeavingLanes {
  LaunchedBlocks fewer{1}, more{1};
  int with_more = 0;
  bool all = false;  ///< as many blocks as lanes, or more

  TESSERA_HOST_DEVICE constexpr int lane_of(int number) const { return all ? number % k_left_lanes : number; }
  /// Launches in which all blocks of a lane have left.
  TESSERA_HOST_DEVICE constexpr unsigned launches(int lane, unsigned long long left) const {
    return lane < with_more ? more.launches(left) : fewer.launches(left);
  }
};
TESSERA_HOST_DEVICE constexpr LeavingLanes leaving_lanes(unsigned blocks) {
  if (blocks < k_left_lanes) return {};
  return {blocks / k_left_lanes, blocks / k_left_lanes + 1, static_cast<int>(blocks % k_left_lanes), true};
}

/// One stage of a plan, for a kernel. Trivially copyable; its pointers are device memory of the chain that
/// made it. The fields mean what they mean in a generated header. In the order of use, because a kernel
/// fetches its parameters a line at a time.
struct RuntimeStage {
  int index = 0;
  Start start = Start::block_index;
  int posts = 0;
  int before_stores = 0;
  bool custom_order = false;
  bool reorder_loads = false;
  bool plain_store = false;
  bool triggers_at_start = false;
  bool stores_after_grid = false;         ///< wait_before_store() waits for the launches before
  bool completes_after_previous = false;  ///< its blocks leave after them; workers do so in draw_next()
  bool announces_start = false;
  bool needs_epoch = false;
  TileGrid grid;
  int splits = 1;
  int persistent_blocks = 0;  ///< 0: a block for each tile and split; n: block i has numbers i, i + n, ...
  RuntimeOperand operand[k_runtime_operands];
  RuntimeSet post;                       ///< of the first set; `posts` says whether there is one
  RuntimeWait const* further = nullptr;  ///< of the others: posts - 1 for each linear tile
  int const* order = nullptr;            ///< tile at each position; null: row major
  RuntimeWait const* before_store = nullptr;
  LeavingLanes leaving;       ///< of RuntimeStageView without tickets
  LaunchedBlocks tickets{1};  ///< of a launch, with tickets

  /// Numbers to compute: tiles times splits.
  TESSERA_HOST_DEVICE constexpr long long blocks() const { return grid.tiles() * splits; }
  /// Blocks that are launched.
  TESSERA_HOST_DEVICE constexpr long long launched() const {
    return persistent_blocks > 0 && persistent_blocks < blocks() ? persistent_blocks : blocks();
  }
};

namespace detail {

/// One thread posts to all sets of the stage, for so many splits of a tile.
template <Scope S, int Rank = k_max_rank>
TESSERA_HOST_DEVICE inline void post_tile(RuntimeStage const& stage, ChainMemory const& memory,
                                          Tile const& tile, unsigned epoch, unsigned splits) {
  // Looked up while stores are on their way, not behind the fence.
  RuntimeWait to = stage.post.template at<Rank>(tile);
  fence_release<S>();
  for (int i = 1;; ++i) {
    unsigned* const semaphore = memory.semaphores + to.semaphore;
    if (stage.plain_store && to.posts == 1)
      store_after_fence<S>(semaphore, epoch + 1u);
    else
      add_after_fence<S>(semaphore, splits);
    if (i >= stage.posts) return;
    int linear = 0;
    for (int d = Rank - 1; d >= 0; --d) linear = linear * stage.grid.extent[d] + tile.at[d];
    to = stage.further[linear * (stage.posts - 1) + i - 1];
  }
}

}  // namespace detail

/// As StageView, for a RuntimeStage. The same rule holds: every block calls start() once and post() once; a
/// block of a persistent grid goes on with next() after each post(). Passed to a kernel by value, as
/// StageView is: the stage stays among the parameters, and what a wait has found, in registers.
template <class Watch = NoWatch, Scope S = Scope::device>
class RuntimeStageView {
 public:
  RuntimeStageView() = default;
  TESSERA_HOST_DEVICE RuntimeStageView(RuntimeStage const& stage, ChainMemory const& memory,
                                       Watch const& watch = {})
      : stage_(stage), memory_(memory), watch_(watch) {}

  TESSERA_HOST_DEVICE Tile start(long long block) {
    // In 32 bits: describe_stages() refuses stages of 2^31 blocks.
    auto number = static_cast<int>(block);
    if (stage_.triggers_at_start) pdl_trigger();
    unsigned epoch = 0;
    if (stage_.start == Start::ticket) {
      unsigned long long const ticket =
          draw_for_block<false>(detail::counter(memory_, stage_.index, detail::Counter::started));
      epoch = stage_.tickets.launches(ticket);
      number = static_cast<int>(ticket - 1ULL * epoch * stage_.tickets.blocks);
    } else {
      if (stage_.announces_start && is_leader<Group::block>())
        count_one(detail::counter(memory_, stage_.index, detail::Counter::started));
      if (stage_.needs_epoch) epoch = stage_.leaving.launches(lane_of(number), load_counter(left(number)));
    }
    return begin(number, epoch);
  }
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  __device__ Tile start() {
    return start(static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)));
  }
#endif

  /// The next of a persistent block's numbers, already started; false: there is none, leave. Any other block
  /// has one number.
  TESSERA_HOST_DEVICE bool next() {
    if (is_last()) return false;
    begin(number_ + stage_.launched(), epoch_);
    return true;
  }

  TESSERA_HOST_DEVICE Tile begin(long long block, unsigned epoch) {
    epoch_ = epoch;
    number_ = static_cast<int>(block);
    auto const number = static_cast<unsigned>(block);
    split_ = 0;
    linear_ = number_;
    auto const splits = static_cast<unsigned>(stage_.splits);
    if (splits > 1) {
      auto const tiles = static_cast<unsigned>(stage_.grid.tiles());
      split_ = static_cast<int>(stage_.custom_order ? number % splits : number / tiles);
      linear_ = static_cast<int>(stage_.custom_order ? number / splits : number % tiles);
    }
    if (stage_.custom_order && stage_.order != nullptr) linear_ = stage_.order[linear_];
    forget();
    return tile();
  }

  /// Computed anew: a tile to keep would be four registers. The last dimension takes what is left of the
  /// number: one division fewer.
  TESSERA_HOST_DEVICE Tile tile() const {
    Tile tile;
    auto rest = static_cast<unsigned>(linear_);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int d = 0; d < k_max_rank; ++d) {
      unsigned above = 0;
      if (d + 1 < stage_.grid.rank) {
        auto const extent = static_cast<unsigned>(stage_.grid.extent[d]);
        above = rest / extent;
        rest -= above * extent;
      }
      tile.at[d] = static_cast<int>(rest);
      rest = above;
    }
    return tile;
  }
  TESSERA_HOST_DEVICE long long linear() const { return linear_; }
  TESSERA_HOST_DEVICE int split() const { return split_; }
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }
  TESSERA_HOST_DEVICE RuntimeStage const& stage() const { return stage_; }
  TESSERA_HOST_DEVICE bool has_producer_at(int operand) const { return stage_.operand[operand].produced; }

  /// As StageView::wait: a comparison where there is nothing to wait for, where the semaphore is that of the
  /// call before, and once all that the tile reads through the operand is there.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    if (last_[I] == all_there) return true;
    auto const& operand = stage_.operand[I];
    if (operand.waits_for_grid) pdl_wait();
    if (!operand.has_set) {
      last_[I] = all_there;
      return true;
    }
    RuntimeWait const next = operand.set.at(producer);
    if (next.semaphore == last_[I]) return true;
    // Fetched with the first look under way.
    bool const lists = operand.offsets != nullptr;
    int const first = lists ? operand.offsets[linear_] : 0;
    int const count = lists ? operand.offsets[linear_ + 1] - first : 0;
    Share const share = share_of<G>();
    // The second wait of many. Not by the first warp: its threads would look one after the other.
    bool const looks = share.step > 32 && last_[I] != nothing_yet && lists;
    bool ok = true;
    bool all = looks;
    if (share.first == 0)
      ok = wait_for(next);
    else if (looks && share.first >= 32)
      for (int i = share.first - 32; i < count && all; i += share.step - 32)
        all = is_met(operand.waits[first + i]);
    if (looks && group_all<G>(ok && all)) {
      last_[I] = all_there;
      return true;
    }
    if (!together<G, Watch>(ok)) return false;
    last_[I] = count == 1 ? all_there : next.semaphore;
    return true;
  }

  /// As StageView::wait_all: everything that this block's tile reads through the operand.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    if (operand.waits_for_grid) pdl_wait();
    if (operand.offsets == nullptr) return true;
    int const first = operand.offsets[linear_];
    return together<G, Watch>(wait_for_each<G>(operand.waits + first, operand.offsets[linear_ + 1] - first));
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
    if (stage_.posts == 0 && !counts_leaving && !stage_.completes_after_previous) return;
    group_barrier<G>();
    if (!is_leader<G>()) return;
    if (stage_.posts > 0) detail::post_tile<S>(stage_, memory_, tile(), epoch_, 1u);
    if (stage_.completes_after_previous && is_last()) pdl_wait();
    if (counts_leaving) count_one(left(number_));
  }

 private:
  /// last_ of an operand before the first wait, and once nothing is left to wait for.
  static constexpr int nothing_yet = -1;
  static constexpr int all_there = -2;

  TESSERA_HOST_DEVICE bool is_last() const {
    return stage_.persistent_blocks == 0 || number_ + stage_.launched() >= stage_.blocks();
  }
  TESSERA_HOST_DEVICE int lane_of(int number) const { return stage_.leaving.lane_of(number); }
  TESSERA_HOST_DEVICE unsigned long long* left(int number) const {
    return detail::counter(memory_, stage_.index, detail::Counter::left, lane_of(number));
  }

  TESSERA_HOST_DEVICE void forget() {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < k_runtime_operands; ++i)
      last_[i] = stage_.operand[i].has_set || stage_.operand[i].waits_for_grid ? nothing_yet : all_there;
  }

  TESSERA_HOST_DEVICE unsigned target_of(RuntimeWait const& wait) const { return (epoch_ + 1u) * wait.posts; }
  TESSERA_HOST_DEVICE bool is_met(RuntimeWait const& wait) const {
    return reached(load_acquire<S>(memory_.semaphores + wait.semaphore), target_of(wait));
  }
  TESSERA_HOST_DEVICE bool wait_for(RuntimeWait const& wait) const {
    return wait_until<S>(memory_.semaphores + wait.semaphore, target_of(wait), watch_,
                         WaitPlace{stage_.index, linear_, wait.semaphore});
  }
  template <Group G>
  TESSERA_HOST_DEVICE bool wait_for_each(RuntimeWait const* waits, int count) const {
    for (int i = share_of<G>().first; i < count; i += share_of<G>().step)
      if (!wait_for(waits[i])) return false;
    return true;
  }

  RuntimeStage stage_;
  ChainMemory memory_;
  Watch watch_;
  int number_ = 0;
  int linear_ = 0;
  int split_ = 0;
  unsigned epoch_ = 0;
  int last_[k_runtime_operands] = {};
};

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
