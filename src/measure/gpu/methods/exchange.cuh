// SPDX-License-Identifier: Apache-2.0
// Two blocks on chosen SMs answer each other; half of a round is a hop.
#pragma once

#include <type_traits>

#include "device_clock.cuh"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/group.cuh"
#include "tessera/sync/wait.cuh"

namespace tessera::probe {

enum class Post { store, add };

/// `to[i]` and `data[i]` are written by side i. Words zeroed before.
struct Exchange {
  unsigned sm[2] = {};
  unsigned* to[2] = {};
  uint4* data[2] = {};
  int vectors = 0;  ///< of 16 bytes, handed over in each hop
  int rounds = 0;
  unsigned pollers = 0;  ///< other blocks that look at side 0's word all the time
  unsigned* pollers_taken = nullptr;
  unsigned long long* span_ns = nullptr;
  unsigned* wrong = nullptr;
};

__device__ inline uint4 vector_of(unsigned round, unsigned index) {
  unsigned const word = round * 0x9E3779B9u + index;
  return make_uint4(word, ~word, round, index);
}

/// One block on every SM is launched; those of other SMs leave. `Whole`: with the barriers of a block whose
/// threads all hand over and read; else one thread a side.
template <Post P, bool Whole, class Watch>
__global__ void exchange(Exchange x, Watch watch) {
  unsigned const sm = sm_index();
  int const side = sm == x.sm[0] ? 0 : sm == x.sm[1] ? 1 : -1;
  if (!Whole && threadIdx.x != 0) return;
  if (side < 0) {
    if (threadIdx.x == 0 && atomicAdd(x.pollers_taken, 1u) < x.pollers)
      wait_until<Scope::device>(x.to[0], static_cast<unsigned>(x.rounds), watch, WaitPlace{});
    return;
  }
  // Not by an index: arrays in local memory would be read again after each wait.
  unsigned* const mine = side == 0 ? x.to[0] : x.to[1];
  unsigned const* const others = side == 0 ? x.to[1] : x.to[0];
  uint4* const outbox = side == 0 ? x.data[0] : x.data[1];
  uint4 const* const inbox = side == 0 ? x.data[1] : x.data[0];
  unsigned wrong = 0;
  auto const send = [&](unsigned round) {
    for (int i = static_cast<int>(threadIdx.x); i < x.vectors; i += static_cast<int>(blockDim.x))
      outbox[i] = vector_of(round, static_cast<unsigned>(i));
    if constexpr (Whole) __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (P == Post::store)
        store_release<Scope::device>(mine, round);
      else
        add_release<Scope::device>(mine, 1);
    }
  };
  auto const receive = [&](unsigned round) {
    bool ok = true;
    if (threadIdx.x == 0)
      ok = wait_until<Scope::device>(others, round, watch, WaitPlace{side, 0, static_cast<long long>(round)});
    if constexpr (Whole) ok = together<Group::block, Watch>(ok);
    for (int i = static_cast<int>(threadIdx.x); i < x.vectors; i += static_cast<int>(blockDim.x)) {
      // Written by another thread.
      unsigned const at = static_cast<unsigned>(x.vectors - 1 - i);
      uint4 const seen = inbox[at];
      uint4 const wanted = vector_of(round, at);
      wrong += seen.x != wanted.x || seen.y != wanted.y || seen.z != wanted.z || seen.w != wanted.w;
    }
    return ok;
  };
  unsigned long long const begin = global_ns();
  for (unsigned round = 1; round <= static_cast<unsigned>(x.rounds); ++round) {
    if (side == 0) send(round);
    if (!receive(round)) break;
    if (side == 1) send(round);
  }
  if (side == 0 && threadIdx.x == 0) *x.span_ns = global_ns() - begin;
  if (wrong != 0) atomicAdd(x.wrong, wrong);
}

__device__ inline unsigned* payload_of(MarkedWords& item) { return item.word; }
template <int Words>
__device__ inline unsigned* payload_of(Packet<Words>& item) {
  return item.payload;
}

/// The data are their own token: each of a block's threads hands over one item and takes one.
template <class Item, class Watch>
__global__ void exchange_tokens(Exchange x, Watch watch) {
  unsigned const sm = sm_index();
  int const side = sm == x.sm[0] ? 0 : sm == x.sm[1] ? 1 : -1;
  if (side < 0) return;
  auto* const mine = reinterpret_cast<Item*>(side == 0 ? x.data[0] : x.data[1]);
  auto const* const others = reinterpret_cast<Item const*>(side == 0 ? x.data[1] : x.data[0]);
  unsigned const from = (threadIdx.x + 33) % blockDim.x;
  constexpr unsigned words = sizeof(Item) == sizeof(Packet<1>)   ? 1
                             : std::is_same_v<Item, MarkedWords> ? 4
                                                                 : 3;
  unsigned wrong = 0;
  auto const word = [](unsigned round, unsigned thread) {
    return (round * 0x9E3779B9u + thread) & 0xFFFEFFFEu;
  };
  auto const send = [&](unsigned round) {
    Item item;
    for (unsigned i = 0; i < words; ++i) payload_of(item)[i] = word(round + i, threadIdx.x);
    put(mine + threadIdx.x, item, round);
  };
  auto const receive = [&](unsigned round) {
    Item items[1];
    bool const ok = take(others + from, 1, round, items, watch, WaitPlace{});
    // Every word: of a load whose words are not all used, the compiler makes two.
    for (unsigned i = 0; i < words; ++i)
      wrong += (payload_of(items[0])[i] & 0xFFFEFFFEu) != word(round + i, from);
    return together<Group::block, Watch>(ok);
  };
  unsigned long long const begin = global_ns();
  for (unsigned round = 0; round < static_cast<unsigned>(x.rounds); ++round) {
    if (side == 0) send(round);
    if (!receive(round)) break;
    if (side == 1) send(round);
  }
  if (side == 0 && threadIdx.x == 0) *x.span_ns = global_ns() - begin;
  if (wrong != 0) atomicAdd(x.wrong, wrong);
}

}  // namespace tessera::probe
