// SPDX-License-Identifier: Apache-2.0
// A stage whose plan is known only when the program runs: the same calls as StageView, over a plain value
// that the host fills from a plan (run/describe.hpp). Costs a few table look-ups that StageView's types save.
#pragma once

#include "describe_stage.cuh"
#include "group.cuh"
#include "launch.cuh"
#include "wait.cuh"

namespace tessera {

/// StallRecord::semaphore of a wait kernel, which waits for the first block of the stage before.
constexpr long long k_no_semaphore = -1;

constexpr int k_runtime_operands = 4;
constexpr int k_runtime_sets = 4;

/// Semaphores of one producer under one policy.
struct RuntimeSet {
  SemaphoreMap map;
  TileGrid grid;        ///< the producer's
  int splits = 1;       ///< the producer's
  long long first = 0;  ///< index in the plan's array

  TESSERA_HOST_DEVICE constexpr long long index_of(Tile const& tile) const {
    return first + map.semaphore_of(grid, tile);
  }
  TESSERA_HOST_DEVICE constexpr unsigned posts_of(long long index) const {
    return static_cast<unsigned>(map.tiles_of(grid, index - first) * splits);
  }
};

/// One wait: the semaphore and its posts per launch.
struct RuntimeWait {
  int semaphore;
  unsigned posts;
};

/// What reading an operand waits for. Tile t's waits are `waits[offsets[t]]` to `waits[offsets[t + 1]]`; both
/// null where the mechanism alone orders the operand.
struct RuntimeOperand {
  bool produced = false;
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
  bool triggers_at_start = false;
  bool waits_for_grid = false;
  bool completes_after_previous = false;
  bool announces_start = false;
  bool needs_epoch = false;
  int const* order = nullptr;  ///< tile at each position; null: row major
  RuntimeOperand operand[k_runtime_operands];
  int posts = 0;
  RuntimeSet post[k_runtime_sets];
  int before_stores = 0;
  RuntimeWait const* before_store = nullptr;

  TESSERA_HOST_DEVICE constexpr long long blocks() const { return grid.tiles() * splits; }
};

/// As StageView, for a RuntimeStage. The same rule holds: every block calls start() once and post() once.
template <class Watch = NoWatch, Scope S = Scope::device>
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
      unsigned long long const ticket =
          draw_for_block<false>(detail::counter(memory_, stage_.index, detail::Counter::started));
      block = static_cast<long long>(ticket % blocks);
      epoch = static_cast<unsigned>(ticket / blocks);
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

  TESSERA_HOST_DEVICE Tile begin(long long block, unsigned epoch) {
    epoch_ = epoch;
    if (!stage_.custom_order) {
      long long const tiles = stage_.grid.tiles();
      split_ = static_cast<int>(block / tiles);
      linear_ = block % tiles;
    } else {
      split_ = static_cast<int>(block % stage_.splits);
      long long const position = block / stage_.splits;
      linear_ = stage_.order != nullptr ? stage_.order[position] : position;
    }
    tile_ = tile_of(stage_.grid, linear_);
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
    if (!operand.produced) return true;
    if (stage_.waits_for_grid) {
      pdl_wait();
      return true;
    }
    if (!operand.has_set) return true;
    long long const index = operand.set.index_of(producer);
    return together<G, Watch>(!is_leader<G>() || wait_for(index, operand.set.posts_of(index)));
  }

  /// As StageView::wait_all: everything that this block's tile reads through the operand.
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    if (!operand.produced) return true;
    if (stage_.waits_for_grid) {
      pdl_wait();
      return true;
    }
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
    if (stage_.waits_for_grid) {
      pdl_wait();
      return true;
    }
    if (stage_.before_stores == 0) return true;
    return together<G, Watch>(wait_for_each<G>(stage_.before_store, stage_.before_stores));
  }

  template <Group G = Group::block>
  TESSERA_HOST_DEVICE void post() {
    bool const counts_leaving = stage_.start == Start::block_index && stage_.needs_epoch;
    group_barrier<G>();
    if (!is_leader<G>()) return;
    // A constant bound: unrolled, so that the stage stays in registers and constant memory.
    for (int i = 0; i < k_runtime_sets; ++i) {
      if (i >= stage_.posts) break;
      auto const& set = stage_.post[i];
      long long const index = set.index_of(tile_);
      if (stage_.plain_store && set.posts_of(index) == 1)
        store_release<S>(memory_.semaphores + index, epoch_ + 1u);
      else
        add_release<S>(memory_.semaphores + index, 1u);
    }
    if (stage_.completes_after_previous || stage_.waits_for_grid) pdl_wait();
    if (counts_leaving) count_one(detail::counter(memory_, stage_.index, detail::Counter::left));
  }

 private:
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

  RuntimeStage stage_;
  ChainMemory memory_;
  Watch watch_;
  Tile tile_;
  long long linear_ = 0;
  int split_ = 0;
  unsigned epoch_ = 0;
};

/// The tickets of one persistent launch. `table` holds pairs (stage, block number) in device memory; null:
/// stage by stage.
struct RuntimeTickets {
  long long tickets = 0;
  int workers = 0;
  int const* table = nullptr;
};

/// What a worker has drawn. `left`: nothing is left to do.
struct RuntimeDraw {
  bool left = true;
  int stage = -1;
  long long block = 0;
  unsigned epoch = 0;
};

/// Draws the next block for a persistent worker, as Worker::next() does. Called by all threads of the block.
/// `blocks(stage)` is asked only where there is no table.
template <class Blocks>
TESSERA_HOST_DEVICE inline RuntimeDraw draw_next(RuntimeTickets const& tickets, ChainMemory const& memory,
                                                 int stages, Blocks const& blocks) {
  unsigned long long const ticket =
      draw_for_block<true>(detail::counter(memory, 0, detail::Counter::started));
  auto const draws = static_cast<unsigned long long>(tickets.tickets + tickets.workers);
  RuntimeDraw result;
  result.epoch = static_cast<unsigned>(ticket / draws);
  auto mine = static_cast<long long>(ticket % draws);
  if (mine >= tickets.tickets) return result;
  if (tickets.table != nullptr)
    return {false, tickets.table[2 * mine], tickets.table[2 * mine + 1], result.epoch};
  for (int s = 0; s < stages; ++s) {
    if (mine < blocks(s)) return {false, s, mine, result.epoch};
    mine -= blocks(s);
  }
  return result;
}

}  // namespace tessera
