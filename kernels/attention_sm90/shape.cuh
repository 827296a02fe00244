// SPDX-License-Identifier: Apache-2.0
// A kernel's sizes, and where things lie in its shared memory: queries, blocks of keys and of values in turn,
// all in chunks of 64 columns, whose rows of 128 bytes are swizzled in patterns of 8; barriers behind them.
#pragma once

#include <tessera/sync/shared_barrier.cuh>

namespace tessera::attention_sm90 {

constexpr int k_chunk = 64;  ///< columns
constexpr int k_line = 128;  ///< bytes of a chunk's row
constexpr int k_warpgroup = 128;
constexpr int k_computing_groups = 2;  ///< warpgroups, each with 64 of a tile's queries
constexpr int k_threads = (1 + k_computing_groups) * k_warpgroup;
constexpr int k_group_queries = 64;

constexpr int keys_of(int head_size) { return head_size == 256 ? 64 : 128; }

/// TakesTurns: the two warpgroups multiply one after the other.
template <class Type, int HeadSize, bool Drops, int Keys = keys_of(HeadSize),
          int Stages = HeadSize == 64 ? 3 : 2, bool TakesTurns = true>
struct Shape {
  using Element = Type;
  static constexpr int head_size = HeadSize;
  static constexpr bool drops = Drops;
  static constexpr int queries = k_computing_groups * k_group_queries;
  static constexpr bool takes_turns = TakesTurns;
  static constexpr int keys = Keys;
  static constexpr int stages = Stages;
  static constexpr int chunks = (HeadSize + k_chunk - 1) / k_chunk;
  static constexpr int query_chunk_bytes = queries * k_line, key_chunk_bytes = keys * k_line;
  static constexpr int query_bytes = chunks * query_chunk_bytes, key_bytes = chunks * key_chunk_bytes;
  static constexpr int keys_at = query_bytes, values_at = keys_at + stages * key_bytes;
  static constexpr int barriers_at = values_at + stages * key_bytes;
  /// Barriers: queries; keys and values full and empty; and the flag of a wait that gave up.
  static constexpr int barriers = 1 + 4 * stages;
  static constexpr int used_bytes = barriers_at + 8 * (barriers + 1);
  static constexpr int alignment = 1024;
  static constexpr int shared_bytes = used_bytes + alignment;
};

/// Shared memory by 32-bit addresses.
template <class S>
struct Room {
  unsigned base;

  __device__ explicit Room(void* memory)
      : base((shared_address(memory) + S::alignment - 1) / S::alignment * S::alignment) {}
  __device__ unsigned queries() const { return base; }
  __device__ unsigned keys(int slot) const { return base + S::keys_at + slot * S::key_bytes; }
  __device__ unsigned values(int slot) const { return base + S::values_at + slot * S::key_bytes; }
  __device__ unsigned queries_full() const { return base + S::barriers_at; }
  __device__ unsigned keys_full(int slot) const { return queries_full() + 8 * (1 + slot); }
  __device__ unsigned keys_empty(int slot) const { return keys_full(slot) + 8 * S::stages; }
  __device__ unsigned values_full(int slot) const { return keys_full(slot) + 16 * S::stages; }
  __device__ unsigned values_empty(int slot) const { return keys_full(slot) + 24 * S::stages; }
  __device__ unsigned gave_up() const { return base + S::barriers_at + 8 * S::barriers; }
};

__device__ inline void wait_barrier(unsigned barrier, unsigned parity) {
  while (!barrier_try(barrier, parity)) {
  }
}
/// A barrier of `threads` threads, number 1 to 15: waits for all, or is counted without waiting.
__device__ inline void named_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
constexpr int k_turn_barrier = 1;   ///< and the next: whose turn to multiply it is
constexpr int k_group_barrier = 3;  ///< and the next: of a warpgroup
constexpr int k_all_barrier = 5;    ///< of those that compute

}  // namespace tessera::attention_sm90
