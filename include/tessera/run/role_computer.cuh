// SPDX-License-Identifier: Apache-2.0
// Threads that compute in a launch with roles (roles.cuh): they read the rings, and give slots back.
#pragma once

#include "role_memory.cuh"

namespace tessera {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

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
