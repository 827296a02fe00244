// SPDX-License-Identifier: Apache-2.0
// Warps that load in a launch with roles (roles.cuh): the early ring has what no stage of the launch writes,
// the late ring what stages write.
#pragma once

#include "role_memory.cuh"

namespace tessera {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

/// Fills the early ring. One thread of each of k_early_warps warps; slots are dealt to them in turns.
template <class Watch>
class EarlyLoader {
 public:
  __device__ EarlyLoader(RoleMemory const& memory, Watch const& watch, int warp)
      : memory_(memory), watch_(watch), warp_(warp) {}

  __device__ void begin(RoleJob const* of) {
    job = of;
    of_tile_ = 0;
  }
  RoleJob const* job = nullptr;
  template <class Operation>
  __device__ auto const& arguments() const {
    return *reinterpret_cast<typename Operation::Arguments const*>(job->arguments);
  }

  /// The next slot. True: it is this thread's, and waits for `bytes`, which the caller loads. False: it is
  /// another warp's, or there was a stall.
  __device__ bool take(unsigned bytes, RingSlot& slot) {
    bool mine = turn_ == warp_ && !stalled_;
    slot = {memory_.slot(place_.index), memory_.full(place_.index)};
    if (mine) {
      // A parity tells a slot's turn from the one before, not from the one before that. But slots are given
      // back in order, and this warp filled one of the last three.
      stalled_ =
          !detail::wait_in_block(memory_.empty(place_.index), place_.parity ^ 1, watch_) || !has_landed();
      mine = !stalled_;
      if (mine) barrier_expect(slot.barrier, bytes);
    }
    place_.next(memory_.rings.slots);
    ++of_tile_;
    if (place_.index == 0) begun_ = true;
    if (++turn_ == k_early_warps) turn_ = 0;
    return mine;
  }
  __device__ bool stalled() const { return stalled_; }

 private:
  // Waits until the slot that is in_flight slots older has landed. Another warp may have filled that place
  // again meanwhile, and a parity does not tell this from not having landed at all: but then what was there
  // has been read.
  __device__ bool has_landed() {
    auto const& rings = memory_.rings;
    int const most = of_tile_ < rings.slots ? rings.in_flight : rings.in_flight_within;
    int before = place_.index - most;
    if (most <= 0 || most >= rings.slots || (!begun_ && before < 0)) return true;
    unsigned const parity = before < 0 ? place_.parity ^ 1 : place_.parity;
    if (before < 0) before += rings.slots;
    return detail::wait_in_block(
        [&] {
          return barrier_test(memory_.empty(before), parity) || barrier_try(memory_.full(before), parity);
        },
        watch_);
  }

  RoleMemory const& memory_;
  Watch const& watch_;
  int warp_;
  int turn_ = 0;
  int of_tile_ = 0;  ///< slots of this tile before the next one
  RingPlace place_;
  bool begun_ = false;
  bool stalled_ = false;
};

/// Fills the late ring, behind waits for the stages that write what it loads. All lanes of each of
/// k_late_warps warps call. Every warp passes all slots, in the order of the ring, and fills those that it
/// takes. Of one job it passes fewer slots than the ring has between two that it fills, and fewer than twice
/// as many before the first. Whole jobs it may pass as it likes.
template <class Watch>
class LateLoader {
 public:
  __device__ LateLoader(RoleMemory const& memory, ChainMemory const& chain, Watch const& watch, int warp)
      : memory_(memory), chain_(chain), watch_(watch), warp_(warp) {}

  __device__ void begin(RoleJob const* of, unsigned periods_before, int period) {
    job = of;
    epoch_ = periods_before + static_cast<unsigned>(of->period);
    serial_ = periods_before * static_cast<unsigned>(period) + static_cast<unsigned>(of->iteration) + 1u;
    ready_ = 0;
    of_job_ = 0;
  }

  RoleJob const* job = nullptr;
  template <class Operation>
  __device__ auto const& arguments() const {
    return *reinterpret_cast<typename Operation::Arguments const*>(job->arguments);
  }
  __device__ int warp() const { return warp_; }
  __device__ void next() { ++jobs_; }
  /// Comes back when the block has read all slots of the job before: other blocks will be about as far, and
  /// looking for what they write begins to make sense. False: a stall.
  __device__ bool wait_for_own() {
    auto const met = [&] {
      unsigned read;
      asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(read) : "r"(memory_.jobs_read()) : "memory");
      return reached(read, jobs_);
    };
    if (!stalled_) stalled_ = !detail::wait_in_block(met, watch_);
    stalled_ = __any_sync(~0u, stalled_) != 0;
    ahead_ = min(ahead_, of_job_);  // slots of earlier jobs have been given back
    return !stalled_;
  }
  /// Of the job's iteration, counted over all launches from 1 on.
  __device__ unsigned serial() const { return serial_; }
  __device__ Watch const& watch() const { return watch_; }
  __device__ WaitPlace place_of(long long semaphore) const {
    return {job->record.stage.index, job->tile, semaphore};
  }

  /// Comes back when the first `end` tiles of the operand's producer, a grid of `tiles` in one dimension, are
  /// complete, for loads by the calling threads. For one operand of a job. Looks at 32 tiles at once. False:
  /// a stall.
  template <int I>
  __device__ bool wait_first(OperandIndex<I> operand, int end, int tiles) {
    return wait_until_complete(operand, ready_, end, [&](int i) { return Tile{{min(i, tiles - 1)}}; });
  }

  /// The same for `count` tiles of a grid of any dimensions: `tile_of(i)`, i from 0 to count - 1.
  template <int I, class TileOf>
  __device__ bool wait_each(OperandIndex<I> operand, int count, TileOf const& tile_of) {
    int complete = 0;
    return wait_until_complete(operand, complete, count, [&](int i) { return tile_of(min(i, count - 1)); });
  }

  /// The same for the tiles from `begin` on, or from where an earlier wait of the job ended.
  template <int I>
  __device__ bool wait_range(OperandIndex<I> operand, int begin, int end, int tiles) {
    ready_ = max(ready_, begin);
    return wait_first(operand, end, tiles);
  }

  /// Tiles of that producer, from those that were waited for on, that are known to be complete; may be more
  /// than it has.
  __device__ int ready() const { return ready_; }

  /// The next slot for loads by the copy engine: it waits for `bytes`. True in the lane that loads.
  __device__ bool take(unsigned bytes, RingSlot& slot) {
    open(slot);
    bool const mine = threadIdx.x % 32 == 0 && !stalled_;
    // What was there may have been stored by a warp.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (mine) barrier_expect(slot.barrier, bytes);
    return mine;
  }
  /// The next slot for stores by the warp itself. False: a stall.
  __device__ bool take(RingSlot& slot) {
    open(slot);
    return !stalled_;
  }
  /// The warp's stores into the slot are done.
  __device__ void fill(RingSlot const& slot) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(slot.barrier);
  }
  /// Slots that other warps take.
  __device__ void pass(int slots) {
    ahead_ = min(ahead_ + slots, k_far);
    of_job_ += slots;
    while (slots-- > 0) place_.next(memory_.rings.late_slots);
  }
  __device__ void stop() { stalled_ = true; }
  __device__ bool stalled() const { return stalled_; }

 private:
  // As in EarlyLoader a parity tells a turn from the one before, not from the one before that: the slot of
  // two turns ago must be known to have been given back. A warp cannot learn this at slots that it passes,
  // where others may be several turns ahead of it. It knows that slots are given back in order, up to one
  // ring before the last that it filled, and all of the jobs that the block has computed.
  __device__ void open(RingSlot& slot) {
    int const size = memory_.rings.late_slots;
    if (ahead_ >= 2 * size) wait_for_own();
    // Too far within one job: to fill the slot would be wrong in some runs only.
    if (ahead_ >= 2 * size) stalled_ = true;
    if (!stalled_)
      stalled_ = !detail::wait_in_block(memory_.late_empty(place_.index), place_.parity ^ 1, watch_);
    slot = {memory_.late_slot(place_.index), memory_.late_full(place_.index)};
    place_.next(size);
    ahead_ = min(ahead_ + 1, size);
    ++of_job_;
    stalled_ = __any_sync(~0u, stalled_) != 0;
  }
  static constexpr int k_far = 1 << 20;

  // Until tiles `complete` to `end` - 1 are; `complete` grows meanwhile, and may go beyond. `tile_of` takes
  // numbers beyond `end`, too.
  template <int I, class TileOf>
  __device__ bool wait_until_complete(OperandIndex<I>, int& complete, int end, TileOf const& tile_of) {
    auto const& operand = job->record.stage.operand[I];
    if (!operand.has_set || complete >= end || stalled_) return !stalled_;
    auto patience = watch_.begin();
    unsigned const periods = epoch_ + 1u - job->record.back[I];
    int tile = complete + static_cast<int>(threadIdx.x % 32);
    RuntimeWait wait = operand.set.at(tile_of(tile));
    for (;;) {
      unsigned const expected = periods * wait.posts;
      unsigned const seen = load_acquire<Scope::device>(chain_.semaphores + wait.semaphore);
      unsigned const late = __ballot_sync(~0u, !reached(seen, expected));
      int const more = late == 0 ? 32 : __ffs(static_cast<int>(late)) - 1;
      complete += more;
      if (complete >= end) break;
      // The first that is late asks whether to go on.
      bool const asks = tile == complete;
      if (!__all_sync(~0u, !asks || watch_.go_on(patience, place_of(wait.semaphore), seen, expected))) {
        stalled_ = true;
        return false;
      }
      if (more == 0) continue;
      tile += more;
      wait = operand.set.at(tile_of(tile));
    }
    fence_proxy_async();
    __syncwarp();
    return true;
  }

  RoleMemory const& memory_;
  ChainMemory const& chain_;
  Watch const& watch_;
  int warp_;
  RingPlace place_;
  unsigned jobs_ = 0;  ///< before this one
  unsigned epoch_ = 0;
  unsigned serial_ = 0;
  int ready_ = 0;
  int of_job_ = 0;  ///< slots of this job before the next one
  int ahead_ = 0;   ///< slots before the next one that are not known to have been given back; at most k_far
  bool stalled_ = false;
};

#endif

}  // namespace tessera
