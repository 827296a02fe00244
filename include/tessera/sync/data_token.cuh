// SPDX-License-Identifier: Apache-2.0
// The second kind of token, for short hops: the launch number travels in the data, and the consumer's load is
// the poll. One trip through the L2, where a semaphore takes three (release, poll, load). Not part of
// sync.cuh: include it beside. docs/sync.md says when it pays and what it asks for.
#pragma once

#include "wait.cuh"

namespace tessera {

/// What a wait for a data token writes as StallRecord::semaphore; seen and expected are tokens then.
constexpr long long k_data_token = -2;
/// The same where the iteration of the launch is known, from 0 up.
TESSERA_HOST_DEVICE constexpr long long data_token_of(int iteration) { return k_data_token - 1 - iteration; }

/// `Words` words of payload and their token, written and read as one access, so that whoever sees the token
/// has the payload. 8 bytes: a 64-bit scalar of the PTX memory model. 16 bytes: a `.b128` scalar (PTX
/// ISA 8.3, sm_70; CUDA 12.3). Not a vector access: `.v4.b32` is four accesses by the model, in any order.
template <int Words>
struct alignas(4 * (Words + 1)) Packet {
  static_assert(Words == 1 || Words == 3, "A packet has 1 word of payload (8 bytes) or 3 words (16 bytes).");
  unsigned payload[Words] = {};
  unsigned token = 0;
};

/// Eight elements of 16 bits, each with its token in its lowest bit: no byte more than the data, one bit of
/// the mantissa less. An element needs nobody else's token, so any access of 16 bits or more will do. The bit
/// turns an infinity into a NaN.
struct alignas(16) MarkedWords {
  unsigned word[4] = {};
};

/// The token of a launch. Memory that was zeroed once carries none of launch 0's.
TESSERA_HOST_DEVICE constexpr unsigned token_of(unsigned epoch) { return epoch + 1u; }
constexpr unsigned k_token_bits = 0x00010001u;
TESSERA_HOST_DEVICE constexpr unsigned token_bits(unsigned epoch) {
  return epoch % 2 == 0 ? k_token_bits : 0u;
}

/// Does the item come from this launch?
template <int Words>
TESSERA_HOST_DEVICE constexpr bool carries(Packet<Words> const& item, unsigned epoch) {
  return item.token == token_of(epoch);
}
TESSERA_HOST_DEVICE constexpr bool carries(MarkedWords const& item, unsigned epoch) {
  unsigned wrong = 0;
  for (unsigned const word : item.word) wrong |= word ^ token_bits(epoch);
  return (wrong & k_token_bits) == 0;
}

namespace detail {

// One access each, relaxed: the payload needs no order with anything else. Scope::block is not worth an
// instruction of its own: nobody hands data over inside a block this way.
template <Scope S>
TESSERA_HOST_DEVICE inline void load_item(Packet<1>& item, Packet<1> const* from) {
#if defined(__CUDA_ARCH__)
  unsigned long long both;
  if constexpr (S == Scope::system)
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(both) : "l"(from) : "memory");
  else
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(both) : "l"(from) : "memory");
  item.payload[0] = static_cast<unsigned>(both);
  item.token = static_cast<unsigned>(both >> 32);
#else
  item.token = __atomic_load_n(&from->token, __ATOMIC_ACQUIRE);
  item.payload[0] = __atomic_load_n(&from->payload[0], __ATOMIC_RELAXED);
#endif
}
template <Scope S>
TESSERA_HOST_DEVICE inline void store_item(Packet<1>* to, Packet<1> const& item) {
#if defined(__CUDA_ARCH__)
  unsigned long long const both = item.payload[0] | static_cast<unsigned long long>(item.token) << 32;
  if constexpr (S == Scope::system)
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(to), "l"(both) : "memory");
  else
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(both) : "memory");
#else
  __atomic_store_n(&to->payload[0], item.payload[0], __ATOMIC_RELAXED);
  __atomic_store_n(&to->token, item.token, __ATOMIC_RELEASE);
#endif
}

template <Scope S>
TESSERA_HOST_DEVICE inline void load_item(Packet<3>& item, Packet<3> const* from) {
#if defined(__CUDA_ARCH__)
  // Volatile, which is relaxed at system scope and one access for good: of a relaxed or acquire load whose
  // words are not all used, ptxas 13.0 makes two, payload first, and the token can be newer than the payload.
  unsigned long long low, high;
  asm volatile("{ .reg .b128 w; ld.volatile.b128 w, [%2]; mov.b128 {%0, %1}, w; }"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  item.payload[0] = static_cast<unsigned>(low);
  item.payload[1] = static_cast<unsigned>(low >> 32);
  item.payload[2] = static_cast<unsigned>(high);
  item.token = static_cast<unsigned>(high >> 32);
#else
  item.token = __atomic_load_n(&from->token, __ATOMIC_ACQUIRE);
  for (int i = 0; i < 3; ++i) item.payload[i] = __atomic_load_n(&from->payload[i], __ATOMIC_RELAXED);
#endif
}
template <Scope S>
TESSERA_HOST_DEVICE inline void store_item(Packet<3>* to, Packet<3> const& item) {
#if defined(__CUDA_ARCH__)
  unsigned long long const low = item.payload[0] | static_cast<unsigned long long>(item.payload[1]) << 32;
  unsigned long long const high = item.payload[2] | static_cast<unsigned long long>(item.token) << 32;
  if constexpr (S == Scope::system)
    asm volatile("{ .reg .b128 w; mov.b128 w, {%1, %2}; st.relaxed.sys.b128 [%0], w; }" ::"l"(to), "l"(low),
                 "l"(high)
                 : "memory");
  else
    asm volatile("{ .reg .b128 w; mov.b128 w, {%1, %2}; st.relaxed.gpu.b128 [%0], w; }" ::"l"(to), "l"(low),
                 "l"(high)
                 : "memory");
#else
  for (int i = 0; i < 3; ++i) __atomic_store_n(&to->payload[i], item.payload[i], __ATOMIC_RELAXED);
  __atomic_store_n(&to->token, item.token, __ATOMIC_RELEASE);
#endif
}

template <Scope S>
TESSERA_HOST_DEVICE inline void load_item(MarkedWords& item, MarkedWords const* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::system)
    asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(item.word[0]), "=r"(item.word[1]), "=r"(item.word[2]), "=r"(item.word[3])
                 : "l"(from)
                 : "memory");
  else
    asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(item.word[0]), "=r"(item.word[1]), "=r"(item.word[2]), "=r"(item.word[3])
                 : "l"(from)
                 : "memory");
#else
  for (int i = 0; i < 4; ++i) item.word[i] = __atomic_load_n(&from->word[i], __ATOMIC_RELAXED);
#endif
}
template <Scope S>
TESSERA_HOST_DEVICE inline void store_item(MarkedWords* to, MarkedWords const& item) {
#if defined(__CUDA_ARCH__)
  if constexpr (S == Scope::system)
    asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(item.word[0]),
                 "r"(item.word[1]), "r"(item.word[2]), "r"(item.word[3])
                 : "memory");
  else
    asm volatile("st.relaxed.gpu.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(item.word[0]),
                 "r"(item.word[1]), "r"(item.word[2]), "r"(item.word[3])
                 : "memory");
#else
  for (int i = 0; i < 4; ++i) __atomic_store_n(&to->word[i], item.word[i], __ATOMIC_RELAXED);
#endif
}

TESSERA_HOST_DEVICE constexpr unsigned token_in(MarkedWords const& item) {
  return item.word[0] & k_token_bits;
}
template <int Words>
TESSERA_HOST_DEVICE constexpr unsigned token_in(Packet<Words> const& item) {
  return item.token;
}
TESSERA_HOST_DEVICE constexpr unsigned token_wanted(MarkedWords const&, unsigned epoch) {
  return token_bits(epoch);
}
template <int Words>
TESSERA_HOST_DEVICE constexpr unsigned token_wanted(Packet<Words> const&, unsigned epoch) {
  return token_of(epoch);
}

}  // namespace detail

/// Writes one item with its token: the data and its post in one store. Called by one thread for each item,
/// once in each launch, for every item of the buffer. Relaxed: says nothing about any other store.
template <Scope S = Scope::device, int Words>
TESSERA_HOST_DEVICE inline void put(Packet<Words>* to, Packet<Words> item, unsigned epoch) {
  item.token = token_of(epoch);
  detail::store_item<S>(to, item);
}
template <Scope S = Scope::device>
TESSERA_HOST_DEVICE inline void put(MarkedWords* to, MarkedWords item, unsigned epoch) {
  for (unsigned& word : item.word) word = (word & ~k_token_bits) | token_bits(epoch);
  detail::store_item<S>(to, item);
}

/// Reads `N` items, `stride` apart, as soon as each carries this launch's token; false if the watch gave up.
/// Called by one thread for itself: a block needs a barrier afterwards only to share what its threads have
/// read. All loads are in flight at once, and only those that came too early are repeated. Relaxed: nothing
/// but the items themselves may be read on the strength of it. `place.semaphore` is not used.
///
/// Hangs (or meets its deadline) if an item is not written in this launch: see wait_until().
template <Scope S = Scope::device, int N, class Item, class Watch>
TESSERA_HOST_DEVICE inline bool take(Item const* from, long long stride, unsigned epoch, Item (&items)[N],
                                     Watch const& watch, WaitPlace place) {
  bool complete = true;
  for (int i = 0; i < N; ++i) detail::load_item<S>(items[i], from + i * stride);
  for (int i = 0; i < N; ++i) complete = complete && carries(items[i], epoch);
  if (complete) return true;
  auto patience = watch.begin();
  place.semaphore = k_data_token;
  for (;;) {
    unsigned seen = 0;
    complete = true;
    for (int i = 0; i < N; ++i) {
      if (carries(items[i], epoch)) continue;
      detail::load_item<S>(items[i], from + i * stride);
      if (carries(items[i], epoch)) continue;
      complete = false;
      seen = detail::token_in(items[i]);
    }
    if (complete) return true;
    if (!watch.go_on(patience, place, seen, detail::token_wanted(items[0], epoch))) return false;
  }
}

/// The launch's number for a stage that has neither tickets nor semaphores to learn it from: a word for each
/// tile, zeroed once, that only the tile's own block touches. `StageView::epoch()` serves where the stage
/// awaits semaphores or draws tickets.
struct LaunchNumber {
  unsigned* word = nullptr;

  /// Called by any threads of the tile's block, before finish().
  TESSERA_HOST_DEVICE unsigned read() const {
#if defined(__CUDA_ARCH__)
    unsigned value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
#else
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
  }
  /// Called by one thread, once a launch, behind a barrier that all readers have reached.
  TESSERA_HOST_DEVICE void finish(unsigned epoch) const {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(word), "r"(epoch + 1u) : "memory");
#else
    __atomic_store_n(word, epoch + 1u, __ATOMIC_RELAXED);
#endif
  }
};

}  // namespace tessera
