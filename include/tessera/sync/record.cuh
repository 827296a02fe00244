// SPDX-License-Identifier: Apache-2.0
// Time stamps of every block, for a measured Timeline. A type around a stage's view: a kernel that is
// compiled with the plain view pays nothing.
#pragma once

#include "chain_memory.cuh"
#include "group.cuh"
#include "tile.cuh"
#include "wait.cuh"

namespace tessera {

/// One block's life in nanoseconds of the GPU's global timer; zero: did not happen. See TileRecord.
struct BlockStamps {
  unsigned long long started = 0;
  unsigned long long ready = 0;    ///< end of the first wait for a producer
  unsigned long long loaded = 0;   ///< mark_loaded(), or the call of post()
  unsigned long long stored = 0;   ///< the call of post(): what the post releases is stored
  unsigned long long posted = 0;   ///< post() has returned
  unsigned long long waiting = 0;  ///< all waits together
  int sm = 0;
  unsigned epoch = 0;
};

/// Where a stage's stamps go: one entry per block, at split * tiles + tile; null: nowhere.
struct RecordTarget {
  BlockStamps* stamps = nullptr;
  TileGrid grid;
};

namespace detail {

TESSERA_HOST_DEVICE inline int this_sm() {
#if defined(__CUDA_ARCH__)
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return static_cast<int>(sm);
#else
  return 0;
#endif
}

// StageView knows its producers as types, RuntimeStageView as values.
template <int I, class View>
TESSERA_HOST_DEVICE constexpr auto is_produced(View const& view, int) -> decltype(view.has_producer_at(I)) {
  return view.has_producer_at(I);
}
template <int I, class View>
TESSERA_HOST_DEVICE constexpr bool is_produced(View const&, ...) {
  return View::template has_producer<I>;
}

}  // namespace detail

/// `View` (StageView or RuntimeStageView) with stamps. The thread that starts the block, the one that waits
/// and the one that posts write their own stamps; several waiting threads overwrite each other's.
template <class View>
class Recorded {
 public:
  Recorded() = default;
  TESSERA_HOST_DEVICE Recorded(View const& view, RecordTarget const& target) : view_(view), target_(target) {}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  __device__ Tile start() {
    auto const now = GlobalTimer::now();
    view_.start();
    return open(now);
  }
#endif
  TESSERA_HOST_DEVICE Tile start(long long block) {
    auto const now = GlobalTimer::now();
    view_.start(block);
    return open(now);
  }
  TESSERA_HOST_DEVICE Tile begin(long long block, unsigned epoch) {
    auto const now = GlobalTimer::now();
    view_.begin(block, epoch);
    return open(now);
  }

  /// For views of persistent grids.
  TESSERA_HOST_DEVICE bool next() {
    auto const now = GlobalTimer::now();
    if (!view_.next()) return false;
    open(now);
    return true;
  }

  TESSERA_HOST_DEVICE Tile tile() const { return view_.tile(); }
  TESSERA_HOST_DEVICE int split() const { return view_.split(); }
  TESSERA_HOST_DEVICE unsigned epoch() const { return view_.epoch(); }

  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I> operand, Tile const& producer) {
    auto const before = GlobalTimer::now();
    bool const ok = view_.template wait<G>(operand, producer);
    if (detail::is_produced<I>(view_, 0)) waited<G>(before);
    return ok;
  }
  template <Group G = Group::block, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I> operand) {
    auto const before = GlobalTimer::now();
    bool const ok = view_.template wait_all<G>(operand);
    if (detail::is_produced<I>(view_, 0)) waited<G>(before);
    return ok;
  }
  template <int I>
  TESSERA_HOST_DEVICE bool wait_for_tma(OperandIndex<I> operand, Tile const& producer) {
    auto const before = GlobalTimer::now();
    bool const ok = view_.wait_for_tma(operand, producer);
    if (detail::is_produced<I>(view_, 0)) waited<Group::thread>(before);
    return ok;
  }
  template <Group G = Group::block>
  TESSERA_HOST_DEVICE bool wait_before_store() {
    return view_.template wait_before_store<G>();
  }

  TESSERA_HOST_DEVICE void mark_loaded() {
    if (slot_ != nullptr && is_leader<Group::block>()) slot_->loaded = GlobalTimer::now();
  }

  template <Group G = Group::block>
  TESSERA_HOST_DEVICE void post() {
    // The barrier is post()'s own, but the stamp must come after every thread's last store.
    group_barrier<G>();
    auto const stored = GlobalTimer::now();
    view_.template post<G>();
    if (slot_ == nullptr || !is_leader<G>()) return;
    slot_->stored = stored;
    slot_->epoch = view_.epoch();
    slot_->posted = GlobalTimer::now();
  }

 private:
  TESSERA_HOST_DEVICE Tile open(unsigned long long now) {
    Tile const tile = view_.tile();
    slot_ = nullptr;
    waiting_ = 0;
    if (target_.stamps == nullptr) return tile;
    slot_ = target_.stamps + view_.split() * target_.grid.tiles() + linear_of(target_.grid, tile);
    if (is_leader<Group::block>()) {
      BlockStamps fresh;
      fresh.started = now;
      fresh.sm = detail::this_sm();
      *slot_ = fresh;
    }
    return tile;
  }
  template <Group G>
  TESSERA_HOST_DEVICE void waited(unsigned long long before) {
    auto const now = GlobalTimer::now();
    if (slot_ != nullptr && is_leader<G>()) {
      if (waiting_ == 0) slot_->ready = now;
      waiting_ += now - before + 1;
      slot_->waiting = waiting_;
    }
  }

  View view_;
  RecordTarget target_;
  BlockStamps* slot_ = nullptr;
  unsigned long long waiting_ = 0;
};

/// Marks the end of a block's main loop where the view records, and is nothing elsewhere.
template <class View>
TESSERA_HOST_DEVICE inline void mark_loaded(View&) {}
template <class View>
TESSERA_HOST_DEVICE inline void mark_loaded(Recorded<View>& view) {
  view.mark_loaded();
}

}  // namespace tessera
