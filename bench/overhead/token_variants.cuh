// SPDX-License-Identifier: Apache-2.0
// Not barriers: ways to let every block of a grid take 4 bytes, which carry their token, from two neighbours.
#pragma once

#include "barrier_variants.cuh"
#include "tessera/sync/data_token.cuh"

namespace tessera::bench {

/// Traps where spin() would.
struct BoundedPolls {
  struct Patience {
    unsigned polls = 0;
  };
  TESSERA_HOST_DEVICE constexpr Patience begin() const { return {}; }
  __device__ bool go_on(Patience& patience, WaitPlace const&, unsigned, unsigned) const {
    if (++patience.polls > 5'000'000) __trap();
    return true;
  }
  static constexpr bool may_stop = false;
};

/// `Copies`: 2 has one in each half of the L2, and looks at the nearer. The first look comes `Delay` cycles
/// after the block's own store.
template <int Copies, int Delay>
struct TokenNeighbours {
  static constexpr unsigned k_apart = 16;  // packets: 128 bytes
  Packet<1>* items;
  Packet<1> const* near;
  unsigned flip;  // packets
  unsigned epoch = 0;
  bool wrong = false;

  __device__ explicit TokenNeighbours(Arena arena)
      : items(reinterpret_cast<Packet<1>*>(arena.words)), flip(arena.flip / 2) {
    Packet<1>* const item = items + ring_neighbour(threadIdx.x) * k_apart;
    near = item;
    if (Copies == 2 && threadIdx.x < 2 &&
        cycles_to(&item->payload[0]) > cycles_to(&(item + flip)->payload[0]))
      near = item + flip;
  }
  __device__ void sync() {
    unsigned const turn = epoch % 2 * gridDim.x * k_apart;
    __syncthreads();
    if (threadIdx.x < 2) {
      Packet<1> mine, got[1];
      mine.payload[0] = blockIdx.x + epoch;
      if (threadIdx.x < Copies) put(items + turn + blockIdx.x * k_apart + threadIdx.x * flip, mine, epoch);
      if constexpr (Delay > 0)
        for (long long const begin = clock64(); clock64() - begin < Delay;) {
        }
      take(near + turn, 1, epoch, got, BoundedPolls{}, WaitPlace{});
      wrong |= got[0].payload[0] != ring_neighbour(threadIdx.x) + epoch;
    }
    __syncthreads();
    ++epoch;
    if (wrong) __trap();
  }
};

/// A word for each direction between two neighbours, where it is near to both: of `Candidates` lines, spread
/// over the L2, the one that the two SMs reach in the fewest cycles, by a measurement before the first round.
/// `Released`: a semaphore with release and acquire in place of a token.
template <int Candidates, bool Released>
struct PlacedNeighbours {
  static constexpr unsigned k_step = 36 * 1056;        // words; 4 KB and 128 bytes many times
  static constexpr unsigned k_costs = 40 * 36 * 1056;  // words, behind all lines
  unsigned* write_to = nullptr;
  unsigned* read_from = nullptr;
  unsigned epoch = 0;
  bool wrong = false;

  /// Candidate `c` for the words between blocks `link` and `link + 1`: 32 bytes for each direction and turn.
  __device__ static unsigned* line(unsigned* words, unsigned link, unsigned c) {
    return words + c * k_step + link * 32;
  }
  /// Cycles from `block` to the candidates of its link to the next block (0) or to the one before, plus one.
  __device__ static unsigned* costs_of(unsigned* words, unsigned block, unsigned side) {
    return words + k_costs + (block * 2 + side) * Candidates;
  }
  __device__ explicit PlacedNeighbours(Arena arena) {
    if (threadIdx.x == 0)
      for (unsigned side = 0; side < 2; ++side)
        for (unsigned c = 0; c < Candidates; ++c) {
          unsigned* const word = line(arena.words, side == 0 ? blockIdx.x : ring_neighbour(1), c) + 31;
          cycles_to(word);
          store_release<Scope::device>(costs_of(arena.words, blockIdx.x, side) + c,
                                       static_cast<unsigned>(cycles_to(word)) + 1);
        }
    __syncthreads();
    if (threadIdx.x < 2) choose(arena.words, threadIdx.x);
    __syncthreads();
  }
  __device__ void choose(unsigned* words, unsigned side) {
    unsigned const* const mine = costs_of(words, blockIdx.x, side);
    unsigned const* const theirs = costs_of(words, ring_neighbour(side), 1 - side);
    unsigned write = 0, read = 0, write_cost = ~0u, read_cost = ~0u;
    for (unsigned c = 0; c < Candidates; ++c) {
      unsigned there = 0;
      spin([&] { return (there = load_acquire<Scope::device>(theirs + c)) != 0; });
      unsigned const here = load_acquire<Scope::device>(mine + c);
      // The store's way, then on average a look and a half.
      if (here + 2 * there < write_cost) write_cost = here + 2 * there, write = c;
      if (there + 2 * here < read_cost) read_cost = there + 2 * here, read = c;
    }
    unsigned const link = side == 0 ? blockIdx.x : ring_neighbour(1);
    write_to = line(words, link, write) + side * 8;
    read_from = line(words, link, read) + (1 - side) * 8;
  }
  __device__ void sync() {
    unsigned const turn = epoch % 2 * 16;
    __syncthreads();
    if (threadIdx.x < 2) {
      if constexpr (Released) {
        store_release<Scope::device>(write_to, epoch + 1);
        spin([&] { return reached(load_acquire<Scope::device>(read_from), epoch + 1); });
      } else {
        Packet<1> mine, got[1];
        mine.payload[0] = blockIdx.x + epoch;
        put(reinterpret_cast<Packet<1>*>(write_to + turn), mine, epoch);
        take(reinterpret_cast<Packet<1> const*>(read_from + turn), 1, epoch, got, BoundedPolls{},
             WaitPlace{});
        wrong |= got[0].payload[0] != ring_neighbour(threadIdx.x) + epoch;
      }
    }
    __syncthreads();
    ++epoch;
    if (wrong) __trap();
  }
};

}  // namespace tessera::bench
