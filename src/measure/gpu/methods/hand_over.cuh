// SPDX-License-Identifier: Apache-2.0
// Blocks of one persistent launch hand data to each other through the L2, round after round, while memory is
// streamed or left alone: behind semaphores, or as words that carry the round. Every value is checked.
#pragma once

#include "memory_stream.cuh"
#include "tessera/sync/memory.cuh"
#include "tessera/sync/wait.cuh"

namespace tessera::probe {

constexpr int k_hand_threads = 256;  ///< of a block, beside those that stream
/// Rounds that one sender's data stay where they are, at least: others may be that far behind.
constexpr int k_hand_copies = 4;
constexpr int k_most_hand_rounds = 512;

/// What one launch does. One sender: members 0 and 1 in turns hand `share` bytes to all other members. All:
/// every member hands `share` bytes to all, in every round. What is counted starts at 0 in every launch.
struct HandOver {
  int members = 2;
  unsigned spread = 1, shift = 0;       ///< a block's member: (block * spread + shift) modulo blocks
  int share = 16;                       ///< bytes, a multiple of 16
  int rounds = 0;                       ///< at most k_most_hand_rounds
  uint4* data = nullptr;                ///< k_hand_copies * 2 times all that is handed over in a round
  unsigned* posts = nullptr;            ///< a semaphore for each sender
  unsigned* read = nullptr;             ///< by member: the last round that it has read
  unsigned* done = nullptr;             ///< 1 when member 0 has had all rounds
  int* spans = nullptr;                 ///< cycles: one sender: there and back, rounds / 2; all: a round
  unsigned long long* clock = nullptr;  ///< cycles and ns of all rounds
  unsigned* wrong = nullptr;            ///< vectors that held something else
};

enum class Carrier { semaphore, words };

/// Word i of a round's data.
__device__ inline unsigned handed(unsigned round, unsigned i) { return round * 0x9E3779B9u + i; }
__device__ inline uint4 handed_vector(unsigned round, unsigned vector) {
  unsigned const first = handed(round, 4 * vector);
  return make_uint4(first, first + 1, first + 2, first + 3);
}
/// Two words, 16 bits of each beside the round.
__device__ inline uint4 handed_words(unsigned round, unsigned pair) {
  unsigned const first = handed(round, 2 * pair), second = first + 1, token = (round + 1) << 16;
  return make_uint4(token | (first & 0xffffu), token | first >> 16, token | (second & 0xffffu),
                    token | second >> 16);
}
__device__ inline bool differ(uint4 const& a, uint4 const& b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
}
__device__ inline bool carry(uint4 const& words, unsigned round) {
  unsigned const token = (round + 1) << 16;
  return ((words.x ^ token) | (words.y ^ token) | (words.z ^ token) | (words.w ^ token)) >> 16 == 0;
}
__device__ inline void store_relaxed(uint4* to, uint4 const& v) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ inline uint4 load_relaxed(uint4 const* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return v;
}

/// Barriers of the threads that hand over; the second also answers whether all said yes.
__device__ inline void hand_sync() {
  __syncwarp();
  asm volatile("barrier.cta.sync.aligned 1, %0;" ::"n"(k_hand_threads) : "memory");
}
__device__ inline bool hand_all(bool yes) {
  __syncwarp();
  unsigned all;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.cta.red.and.aligned.pred q, 1, %2, p; selp.u32 %0, "
      "1, 0, q; }"
      : "=r"(all)
      : "r"(yes ? 1u : 0u), "n"(k_hand_threads)
      : "memory");
  return all != 0;
}

/// Times rounds on the SM of member 0, by its first thread.
template <bool All>
class HandTimer {
 public:
  __device__ explicit HandTimer(HandOver const& x)
      : x_(x), begin_(cycles()), begin_ns_(global_ns()), last_(begin_) {}
  /// Behind a round.
  __device__ void stamp(unsigned round) {
    if (!All && round % 2 != 0) return;
    long long const now = cycles();
    spans()[(All ? round : round / 2) - 1] = static_cast<int>(now - last_);
    last_ = now;
  }
  __device__ void end() const {
    for (int i = 0; i < x_.rounds / (All ? 1 : 2); ++i) x_.spans[i] = spans()[i];
    x_.clock[0] = static_cast<unsigned long long>(cycles() - begin_);
    x_.clock[1] = global_ns() - begin_ns_;
    store_release<Scope::device>(x_.done, 1u);
  }

 private:
  // In shared memory: a store to device memory would stand before those of the next round.
  __device__ static int* spans() {
    __shared__ int all[k_most_hand_rounds];
    return all;
  }

  HandOver const& x_;
  long long begin_;
  unsigned long long begin_ns_;
  long long last_;
};

/// A member, seen by one of its threads.
template <Carrier C, bool All>
struct HandMember {
  HandOver const& x;
  DeadlineWatch<> const& watch;
  unsigned me;
  unsigned wrong = 0;

  static constexpr unsigned k_copies = All ? 2 : 2 * k_hand_copies;
  static constexpr unsigned k_factor = C == Carrier::words ? 2 : 1;
  static constexpr int k_loads = 8;  ///< of a thread, on their way at once

  __device__ static unsigned sender(unsigned round) { return (round - 1) % 2; }
  __device__ unsigned senders() const { return All ? static_cast<unsigned>(x.members) : 1; }
  __device__ unsigned vectors() const { return static_cast<unsigned>(x.share) / 16 * k_factor; }
  __device__ uint4* round_data(unsigned round) const {
    return x.data + static_cast<std::size_t>(round % k_copies) * senders() * vectors();
  }

  __device__ void send(unsigned round) const {
    unsigned const first = All ? me * vectors() : 0;
    uint4* const to = round_data(round) + first;
    for (unsigned v = threadIdx.x; v < vectors(); v += k_hand_threads) {
      if constexpr (C == Carrier::words)
        store_relaxed(to + v, handed_words(round, first + v));
      else
        to[v] = handed_vector(round, first + v);
    }
    if constexpr (C == Carrier::semaphore) {
      hand_sync();
      if (threadIdx.x == 0) add_release<Scope::device>(x.posts + me, 1);
    }
  }

  __device__ bool receive(unsigned round) {
    // What is handed over next may overwrite what was read so many rounds ago, by all.
    bool const asks = !All && me < 2 && round + 1 > k_copies && threadIdx.x + 2 < x.members;
    unsigned last_read = 0;
    if (asks)
      asm volatile("ld.relaxed.gpu.u32 %0, [%1];"
                   : "=r"(last_read)
                   : "l"(x.read + threadIdx.x + 2)
                   : "memory");
    bool ok = C == Carrier::words ? receive_words(round) : receive_behind_semaphores(round);
    if (asks && !reached(last_read, round + 1 - k_copies))
      ok = ok &&
           wait_until<Scope::device>(x.read + threadIdx.x + 2, round + 1 - k_copies, watch, place(round));
    ok = hand_all(ok);
    // Not a release, whose fence would take longer than a round: what was read has been compared.
    if (!All && me >= 2 && threadIdx.x == 0)
      asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(x.read + me), "r"(round) : "memory");
    return ok;
  }

 private:
  __device__ WaitPlace place(unsigned round) const {
    return {static_cast<int>(me), static_cast<long long>(round), 0};
  }

  __device__ bool receive_behind_semaphores(unsigned round) {
    bool ok = true;
    if (threadIdx.x < senders())
      ok = wait_until<Scope::device>(x.posts + (All ? threadIdx.x : sender(round)),
                                     All ? round : (round + 1) / 2, watch, place(round));
    if (!hand_all(ok)) return false;
    uint4 const* const from = round_data(round);
    unsigned const count = senders() * vectors();
    for (unsigned first = threadIdx.x; first < count; first += k_loads * k_hand_threads) {
      uint4 seen[k_loads];
#pragma unroll
      for (unsigned j = 0; j < k_loads; ++j)
        if (unsigned const v = first + j * k_hand_threads; v < count) seen[j] = from[v];
#pragma unroll
      for (unsigned j = 0; j < k_loads; ++j)
        if (unsigned const v = first + j * k_hand_threads; v < count)
          wrong += differ(seen[j], handed_vector(round, v));
    }
    return true;
  }

  __device__ bool receive_words(unsigned round) {
    uint4 const* const from = round_data(round);
    unsigned const count = senders() * vectors();
    auto patience = watch.begin();
    for (unsigned first = threadIdx.x; first < count; first += k_loads * k_hand_threads) {
      uint4 seen[k_loads];
      bool there[k_loads];
#pragma unroll
      for (unsigned j = 0; j < k_loads; ++j) there[j] = first + j * k_hand_threads >= count;
      for (;;) {
#pragma unroll
        for (unsigned j = 0; j < k_loads; ++j)
          if (!there[j]) seen[j] = load_relaxed(from + first + j * k_hand_threads);
        bool all = true;
#pragma unroll
        for (unsigned j = 0; j < k_loads; ++j)
          if (!there[j]) all = (there[j] = carry(seen[j], round)) && all;
        if (all) break;
        if (!watch.go_on(patience, place(round), 0, round)) return false;
      }
#pragma unroll
      for (unsigned j = 0; j < k_loads; ++j)
        if (unsigned const v = first + j * k_hand_threads; v < count)
          wrong += differ(seen[j], handed_words(round, v));
    }
    return true;
  }
};

/// One block on every SM. Dynamic shared memory is the stream's.
template <Carrier C, bool All>
__global__ void __launch_bounds__(k_hand_threads + 32 * k_stream_warps, 1)
    hand_over(HandOver x, MemoryStream stream, DeadlineWatch<> watch) {
  extern __shared__ uint4 room[];
  __shared__ alignas(8) unsigned long long barriers[k_stream_warps * k_stream_most_slots];
  if (threadIdx.x >= k_hand_threads) {
    stream_memory(stream, static_cast<int>(threadIdx.x - k_hand_threads) / 32,
                  (shared_address(room) + 127) / 128 * 128, shared_address(barriers));
    return;
  }
  HandMember<C, All> member{x, watch, (blockIdx.x * x.spread + x.shift) % gridDim.x};
  if (member.me >= static_cast<unsigned>(x.members)) return;
  if (stream.slots > 0) spin_cycles(40'000);  // until the others are under way
  bool const first = member.me == 0 && threadIdx.x == 0;
  HandTimer<All> timer(x);
  for (unsigned round = 1; round <= static_cast<unsigned>(x.rounds); ++round) {
    bool const sends = All || HandMember<C, All>::sender(round) == member.me;
    if (sends) member.send(round);
    if ((All || !sends) && !member.receive(round)) break;
    if (first) timer.stamp(round);
  }
  if (first) timer.end();
  if (member.wrong != 0) atomicAdd(x.wrong, member.wrong);
}

}  // namespace tessera::probe
