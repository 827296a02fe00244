// SPDX-License-Identifier: Apache-2.0
// What the warps of a block have in common in a launch with roles (role_kernel.cuh): jobs and rings in shared
// memory, and who waits for what. For sm_90 and later.
//
// An operation with roles has three functions. Each is called for every tile, by other warps, in the same
// order of tiles; they meet in the rings.
//
//   struct Product {
//     static constexpr bool has_roles = true;
//     static constexpr int threads = 128;       // that compute; a multiple of 32
//     static constexpr int loader_registers = 56;  // of a thread that loads; may be left out
//     using Arguments = ProductArguments;       // of a stage; copied to shared memory ahead of use
//     // In device memory, 8-byte aligned. The host asks for it, when it makes the chain.
//     TESSERA_HOST_DEVICE Arguments const* arguments(int stage) const;
//     template <class L> __device__ void load_early(L& loader) const;  // what no stage of the launch writes
//     template <class L> __device__ void load_late(L& loader) const;   // what stages of the launch write
//     template <class C, class V> __device__ void compute(C& computer, V& view) const;   // and store
//   };
//
// A tile function (tile_function.cuh) is an operation without rings: the warps that compute call it.
#pragma once

#include "../plan/role_rings.hpp"
#include "../sync/cluster.cuh"
#include "../sync/launch.cuh"
#include "../sync/shared_barrier.cuh"
#include "../sync/tensor_load.cuh"
#include "loop_worker.cuh"
#include "tile_function.cuh"

namespace tessera {

constexpr int k_role_jobs = 4;

/// One tile, as all roles of the block see it. A copy in shared memory of what says how to compute it.
struct RoleJob {
  LoopRecord record;
  unsigned long long arguments[k_role_argument_bytes / sizeof(unsigned long long)];
  long long iteration;  ///< of the launch
  long long period;
  int tile;    ///< linear
  int wanted;  ///< 0: of an iteration that was not asked for; -1: nothing is left to do
};

namespace detail {

constexpr int k_role_barrier_bytes = 1024;
constexpr int k_role_job_bytes = (static_cast<int>(sizeof(RoleJob)) + 15) / 16 * 16;
constexpr int k_role_fixed_bytes =
    (k_role_barrier_bytes + k_role_jobs * k_role_job_bytes + 1023) / 1024 * 1024;

}  // namespace detail

/// Dynamic shared memory of a launch with such rings.
TESSERA_HOST_DEVICE constexpr int shared_bytes_of(RoleRings const& r) {
  return detail::k_role_fixed_bytes + r.slots * r.slot_bytes + r.late_slots * r.late_slot_bytes +
         r.scratch_bytes + k_cluster_exchanges * r.exchange_bytes;
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

/// A slot to load into: where, and the barrier that counts what has landed.
struct RingSlot {
  unsigned address = 0;
  unsigned barrier = 0;
};

/// Shared memory of a block: barriers, jobs, the early ring, the late ring.
struct RoleMemory {
  unsigned base;  ///< 1024-byte aligned
  RoleRings const& rings;

  __device__ unsigned full(int slot) const { return base + 8 * slot; }
  __device__ unsigned empty(int slot) const { return base + 8 * (k_role_slots + slot); }
  __device__ unsigned late_full(int slot) const { return base + 8 * (2 * k_role_slots + slot); }
  __device__ unsigned late_empty(int slot) const {
    return base + 8 * (2 * k_role_slots + k_role_late_slots + slot);
  }
  __device__ unsigned job_full(int job) const { return base + first_job_barrier + 8 * job; }
  __device__ unsigned job_empty(int job) const { return base + first_job_barrier + 8 * (k_role_jobs + job); }
  /// A number: jobs whose slots the block has given back.
  __device__ unsigned jobs_read() const { return base + first_job_barrier + 8 * 2 * k_role_jobs; }
  /// Counts what other blocks of the cluster store in this one.
  __device__ unsigned exchanged(int i) const { return jobs_read() + 8 * (1 + i); }
  __device__ unsigned job(int i) const {
    return base + detail::k_role_barrier_bytes + i * detail::k_role_job_bytes;
  }
  __device__ unsigned slot(int i) const { return base + detail::k_role_fixed_bytes + i * rings.slot_bytes; }
  __device__ unsigned late_slot(int i) const { return slot(rings.slots) + i * rings.late_slot_bytes; }
  /// From `base` on.
  __device__ int scratch() const {
    return shared_bytes_of(rings) - k_cluster_exchanges * rings.exchange_bytes - rings.scratch_bytes;
  }
  /// Where the bytes come that exchanged(i) counts.
  __device__ unsigned exchange_room(int i) const {
    return base + shared_bytes_of(rings) - (k_cluster_exchanges - i) * rings.exchange_bytes;
  }

  static constexpr unsigned first_job_barrier = 8 * 2 * (k_role_slots + k_role_late_slots);
};
static_assert(k_role_ring_bytes == 227 * 1024 - detail::k_role_fixed_bytes,
              "the rest of an SM of sm_90 is for rings");
static_assert(RoleMemory::first_job_barrier + 8 * (2 * k_role_jobs + 1 + k_cluster_exchanges) <=
                  detail::k_role_barrier_bytes,
              "");

namespace detail {

/// Waits for what happens in the block; false after a stall. It is late only because a semaphore is, so it
/// lets the waits for semaphores meet their deadline first.
template <class Met, class Watch>
__device__ inline auto wait_in_block(Met const& met, Watch const& watch)
    -> decltype(static_cast<bool>(met())) {
  if (met()) return true;
  auto slower = watch;
  if constexpr (Watch::may_stop) slower.nanoseconds *= 4;
  auto patience = slower.begin();
  for (unsigned tries = 1; !met(); ++tries)
    if (tries % 16 == 0 &&
        !slower.go_on(patience, WaitPlace{0, static_cast<int>(blockIdx.x), k_no_semaphore}, 0, 0))
      return false;
  return true;
}
/// For a barrier in shared memory.
template <class Watch>
__device__ inline bool wait_in_block(unsigned barrier, unsigned parity, Watch const& watch) {
  return wait_in_block([&] { return barrier_try(barrier, parity); }, watch);
}

/// After a stall: loads that are on their way must land in shared memory that still is this block's.
__device__ inline void linger() {
  unsigned long long const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < 20'000'000)
    ;
}

}  // namespace detail

/// The jobs of a block, one after the other, for one role.
template <class Watch>
class RoleJobs {
 public:
  __device__ RoleJobs(RoleMemory const& memory, RoleJob const* jobs, Watch const& watch)
      : memory_(memory), jobs_(jobs), watch_(watch) {}

  /// Comes back when the next job is there. False: a stall, in the calling thread: others may see the job.
  __device__ bool wait() const {
    return detail::wait_in_block(memory_.job_full(place_.index), place_.parity, watch_);
  }
  /// Is the job behind the next one there?
  __device__ bool following_is_there() const {
    auto place = place_;
    place.next(k_role_jobs);
    return barrier_test(memory_.job_full(place.index), place.parity);
  }
  /// nullptr: nothing is left. Behind a wait of every thread that calls.
  __device__ RoleJob const* get() const {
    auto const* const job = reinterpret_cast<RoleJob const*>(reinterpret_cast<char const*>(jobs_) +
                                                             place_.index * detail::k_role_job_bytes);
    return job->wanted < 0 ? nullptr : job;
  }
  /// One thread of each warp, when the warp has done with the job.
  __device__ void done() const { barrier_arrive(memory_.job_empty(place_.index)); }
  __device__ void next() { place_.next(k_role_jobs); }

 private:
  RoleMemory const& memory_;
  RoleJob const* jobs_;
  Watch const& watch_;
  RingPlace place_;
};

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

/// The threads that compute: they read the rings in the order in which the loaders filled them. All call, and
/// every warp waits for every slot and gives it back, also one that it does not read.
/// After a stall every wait returns at once, and what is computed is not posted: nobody leaves alone.
template <class Watch, int Threads>
class RoleComputer {
 public:
  static constexpr int threads = Threads;

  __device__ RoleComputer(RoleMemory const& memory, Watch const& watch) : memory_(memory), watch_(watch) {}

  RoleJob const* job = nullptr;
  template <class Operation>
  __device__ auto const& arguments() const {
    return *reinterpret_cast<typename Operation::Arguments const*>(job->arguments);
  }
  unsigned serial = 0;               ///< LateLoader::serial()
  unsigned char* scratch = nullptr;  ///< Operation::shared_bytes of shared memory
  /// For waits of the operation itself; behind one that stopped: stop().
  __device__ Watch const& watch() const { return watch_; }
  __device__ WaitPlace place_of(long long semaphore) const {
    return {job->record.stage.index, job->tile, semaphore};
  }

  /// A place of the early ring that is read later; the ring goes on behind it.
  __device__ RingPlace next_slot() {
    auto const place = early_;
    early_.next(memory_.rings.slots);
    return place;
  }
  __device__ void wait_slot(RingPlace const& place) { wait(memory_.full(place.index), place.parity); }
  __device__ unsigned slot(RingPlace const& place) const { return memory_.slot(place.index); }
  /// All lanes of every warp, when the warp has read it.
  __device__ void release_slot(RingPlace const& place) { release(memory_.empty(place.index)); }

  __device__ RingPlace next_late_slot() {
    auto const place = late_;
    late_.next(memory_.rings.late_slots);
    return place;
  }
  __device__ void wait_late_slot(RingPlace const& place) {
    wait(memory_.late_full(place.index), place.parity);
  }
  __device__ unsigned late_slot(RingPlace const& place) const { return memory_.late_slot(place.index); }
  __device__ void release_late_slot(RingPlace const& place) { release(memory_.late_empty(place.index)); }

  /// An exchange between the blocks of a cluster (RoleOptions::cluster_blocks), in which each stores in the
  /// others' shared memory. All of them make the same exchanges, in the same order, at the same places of
  /// their lists, and each sends something to each of the others in every one. Two barriers take turns, and
  /// with them two rooms for what comes (RoleRings::exchange_bytes). A block sends for the next exchange but
  /// one when it has what was sent to it for the next one, and so when the others have read what it sent for
  /// this one.
  __device__ RingPlace next_exchange() {
    auto const place = exchange_;
    exchange_.next(k_cluster_exchanges);
    return place;
  }
  /// The barrier at which the bytes of an exchange are counted: in_block() of it is another block's.
  __device__ unsigned exchange_barrier(RingPlace const& place) const {
    return memory_.exchanged(place.index);
  }
  /// The room for what comes: at the same address in every block.
  __device__ unsigned exchange_room(RingPlace const& place) const {
    return memory_.exchange_room(place.index);
  }
  /// One thread: so many bytes come.
  __device__ void expect_exchange(RingPlace const& place, unsigned bytes) const {
    barrier_expect(memory_.exchanged(place.index), bytes);
  }
  /// All threads: comes back when they are there.
  __device__ void wait_exchange(RingPlace const& place) {
    auto const met = [&] { return barrier_try_cluster(memory_.exchanged(place.index), place.parity); };
    if (!stalled_) stalled_ = !detail::wait_in_block(met, watch_);
  }

  /// All threads, once, when they have given back all slots of the job: loaders may look for what comes next.
  /// A barrier of the threads that compute. The library calls it behind an operation that does not.
  __device__ void done_reading() {
    sync();
    if (threadIdx.x == Threads - 1)
      asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(memory_.jobs_read()), "r"(read_ + 1)
                   : "memory");
    ++read_;
  }
  /// Jobs that have been read.
  __device__ unsigned read() const { return read_; }

  /// Barrier of the threads that compute. Each warp is gathered first, here and in anyone(): for warps that
  /// may come in parts the compiler makes a second copy of the barrier.
  __device__ void sync() const {
    __syncwarp();
    asm volatile("barrier.cta.sync.aligned 2, %0;" ::"n"(Threads) : "memory");
  }

  __device__ void stop() { stalled_ = true; }
  /// Barrier that also answers whether there was a stall in any of the threads.
  __device__ bool anyone_stopped() const { return anyone(false); }
  /// Barrier that also answers whether any of the threads says yes, or had a stall.
  __device__ bool anyone(bool yes) const {
    unsigned any;
    __syncwarp();
    asm volatile(
        "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.cta.red.or.aligned.pred q, 2, %2, p; "
        "selp.u32 %0, 1, 0, q; }"
        : "=r"(any)
        : "r"(stalled_ || yes ? 1u : 0u), "n"(Threads)
        : "memory");
    return any != 0;
  }

 private:
  __device__ void wait(unsigned barrier, unsigned parity) {
    if (!stalled_) stalled_ = !detail::wait_in_block(barrier, parity, watch_);
  }
  __device__ void release(unsigned barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0 && !stalled_) barrier_arrive(barrier);
  }

  RoleMemory const& memory_;
  Watch const& watch_;
  RingPlace early_;
  RingPlace late_;
  RingPlace exchange_;
  unsigned read_ = 0;
  bool stalled_ = false;
};

#endif

}  // namespace tessera
