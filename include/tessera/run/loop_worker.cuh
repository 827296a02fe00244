// SPDX-License-Identifier: Apache-2.0
// Workers of a loop in one persistent launch, and what a tile of a loop waits for and posts. What a stage is,
// workers read from a record in device memory, so that a kernel does not grow with the number of stages, and
// the number of iterations is an argument.
#pragma once

#include "../sync/runtime_stage.cuh"

namespace tessera {

/// One stage of a period. Tiles in row-major order, in one split each.
struct LoopRecord {
  RuntimeStage stage;
  int operation = 0;                       ///< which of the kernel's tile functions computes it
  int body_stage = 0;                      ///< which of the loop's body it is
  int iteration = 0;                       ///< in the period
  unsigned back[k_runtime_operands] = {};  ///< periods that an operand reaches back
  int const* back_of_stores = nullptr;     ///< the same of each wait of stage.before_store
};

/// A launch: so many iterations of a loop, whose periods have `tickets` tickets each, stage by stage. Every
/// launch computes whole periods; tiles of iterations that were not asked for wait and post, and compute
/// nothing.
struct LoopTickets {
  long long tickets = 0;
  int period = 1;
  int workers = 0;
  long long iterations = 0;

  TESSERA_HOST_DEVICE constexpr long long periods() const { return (iterations + period - 1) / period; }
};

/// What a worker has drawn. `left`: nothing is left to do.
struct LoopDraw {
  bool left = true;
  int stage = 0;
  int tile = 0;
  long long period = 0;  ///< of the launch
  unsigned epoch = 0;    ///< periods before this one, those of earlier launches included
};

namespace detail {

/// Relaxed, device scope, as the counter's other accesses.
TESSERA_HOST_DEVICE inline void set_counter(unsigned long long* counter, unsigned long long value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(global_address(counter)), "l"(value) : "memory");
#else
  __atomic_store_n(counter, value, __ATOMIC_RELAXED);
#endif
}

}  // namespace detail

/// One block of the launch, or one thread on the CPU. Every launch has the same number of workers, all of
/// them resident; launches on one ChainMemory follow each other. Counters of the first stage: tickets of this
/// launch, and periods of the launches before.
class LoopWorker {
 public:
  /// Called by all threads of the block.
  TESSERA_HOST_DEVICE LoopWorker(LoopTickets const& launch, ChainMemory const& memory)
      : launch_(launch),
        drawn_(detail::counter(memory, 0, detail::Counter::started)),
        done_(detail::counter(memory, 0, detail::Counter::left)),
        before_(static_cast<unsigned>(load_counter(done_))) {
    order_counters();
  }

  /// `tiles(stage)`: of a stage of the period. May be called before the tile drawn before is computed:
  /// tickets are computed in the order in which they were drawn, so that the earliest one never waits for a
  /// later one.
  template <class Tiles>
  TESSERA_HOST_DEVICE LoopDraw next(Tiles const& tiles) {
    unsigned long long const ticket = draw_for_block<true>(drawn_);
    auto const all = static_cast<unsigned long long>(launch_.tickets * launch_.periods());
    LoopDraw result;
    if (ticket >= all) {
      // The last draw of the launch: until the next one nobody asks for tickets or periods.
      if (ticket == all + static_cast<unsigned long long>(launch_.workers) - 1 && is_leader<Group::block>()) {
        order_counters();
        detail::set_counter(drawn_, 0);
        detail::set_counter(done_, load_counter(done_) + static_cast<unsigned long long>(launch_.periods()));
      }
      return result;
    }
    result.left = false;
    result.period = static_cast<long long>(ticket / static_cast<unsigned long long>(launch_.tickets));
    result.epoch = before_ + static_cast<unsigned>(result.period);
    auto rest = static_cast<long long>(ticket % static_cast<unsigned long long>(launch_.tickets));
    while (rest >= tiles(result.stage)) rest -= tiles(result.stage++);
    result.tile = static_cast<int>(rest);
    return result;
  }

  /// Which iteration of the launch a stage of the drawn period belongs to; none that was asked for: false.
  TESSERA_HOST_DEVICE bool is_asked_for(LoopDraw const& draw, LoopRecord const& record,
                                        long long& iteration) const {
    iteration = draw.period * launch_.period + record.iteration;
    return iteration < launch_.iterations;
  }

 private:
  /// Every worker has asked how many periods there were before it draws, and the last draw is seen before
  /// that number changes: relaxed accesses of two counters have no order of their own.
  TESSERA_HOST_DEVICE static void order_counters() {
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
  }

  LoopTickets launch_;
  unsigned long long* drawn_;
  unsigned long long* done_;
  unsigned before_;
};

/// As RuntimeStageView, for a tile of a record, which may reach back to earlier periods. The record is not
/// copied: it lies in shared memory, or in the host's.
template <class Watch = NoWatch, Scope S = Scope::device>
class LoopStageView {
 public:
  TESSERA_HOST_DEVICE LoopStageView(LoopRecord const& record, ChainMemory const& memory, Watch const& watch,
                                    LoopDraw const& draw)
      : record_(record), memory_(memory), watch_(watch), linear_(draw.tile), epoch_(draw.epoch) {}

  TESSERA_HOST_DEVICE Tile tile() const {
    Tile tile;
    auto rest = static_cast<unsigned>(linear_);
    for (int d = 0; d < k_max_rank; ++d) {
      auto const extent = static_cast<unsigned>(record_.stage.grid.extent[d]);
      tile.at[d] = static_cast<int>(rest % extent);
      rest /= extent;
    }
    return tile;
  }
  TESSERA_HOST_DEVICE int split() const { return 0; }
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }
  TESSERA_HOST_DEVICE LoopRecord const& record() const { return record_; }

  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    auto const& operand = record_.stage.operand[I];
    if (!operand.has_set) return true;
    return together<G, Watch>(!is_leader<G>() || wait_for(operand.set.at(producer), record_.back[I]));
  }
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = record_.stage.operand[I];
    if (operand.offsets == nullptr) return true;
    int const first = operand.offsets[linear_];
    int const count = operand.offsets[linear_ + 1] - first;
    bool met = true;
    for (int i = share_of<G>().first; i < count && met; i += share_of<G>().step)
      met = wait_for(operand.waits[first + i], record_.back[I]);
    return together<G, Watch>(met);
  }
  template <Group G = Group::block>
  TESSERA_HOST_DEVICE bool wait_before_store() {
    auto const& stage = record_.stage;
    if (stage.before_stores == 0) return true;
    bool met = true;
    for (int i = share_of<G>().first; i < stage.before_stores && met; i += share_of<G>().step)
      met = wait_for(stage.before_store[i], static_cast<unsigned>(record_.back_of_stores[i]));
    return together<G, Watch>(met);
  }
  template <Group G = Group::block>
  TESSERA_HOST_DEVICE void post() {
    group_barrier<G>();
    if (is_leader<G>() && record_.stage.posts > 0)
      detail::post_tile<S>(record_.stage, memory_, tile(), epoch_, 1u);
  }

 private:
  /// For the posts of so many periods before. Those from before the first period are met: counts compare as
  /// differences.
  TESSERA_HOST_DEVICE bool wait_for(RuntimeWait const& wait, unsigned back) const {
    return wait_until<S>(memory_.semaphores + wait.semaphore, (epoch_ + 1u - back) * wait.posts, watch_,
                         WaitPlace{record_.stage.index, linear_, wait.semaphore});
  }

  LoopRecord const& record_;
  ChainMemory memory_;
  Watch watch_;
  int linear_;
  unsigned epoch_;
};

}  // namespace tessera
