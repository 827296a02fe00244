// SPDX-License-Identifier: Apache-2.0
// A kernel's sizes, and where things lie in its shared memory: queries, blocks of keys and of values in turn,
// all in chunks of 64 columns, whose rows of 128 bytes are swizzled in patterns of 8; barriers behind them.
#pragma once

#include <tessera/sync/shared_barrier.cuh>

namespace tessera::attention_sm90 {

constexpr int k_chunk = 64;  ///< columns
constexpr int k_line = 128;  ///< bytes of a chunk's row
constexpr int k_warpgroup = 128;
constexpr int k_group_queries = 64;

/// Groups: warpgroups that compute, each 64 of a tile's queries.
template <class Type, int HeadSize, bool Drops, int Groups = 2>
struct Shape {
  static_assert(Groups >= 1 && Groups <= 3);
  using Element = Type;
  static constexpr int head_size = HeadSize;
  static constexpr bool drops = Drops;
  static constexpr int groups = Groups;
  static constexpr int queries = groups * k_group_queries;
  static constexpr int computers = groups * k_warpgroup, threads = computers + k_warpgroup;
  /// Of a thread: what there is divided by role. One warpgroup has all that it can use.
  static constexpr int loader_registers = groups == 3 ? 32 : 40, computer_registers = groups == 3 ? 160 : 232;
  /// Three warpgroups have registers for 64.
  static constexpr int keys = HeadSize == 256 || groups == 3 ? 64 : 128;
  static constexpr int stages = groups == 3 ? 4 : HeadSize == 64 || groups == 1 ? 3 : 2;
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
  static_assert(shared_bytes <= 227 * 1024);
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
constexpr int k_turn_barrier = 1;   ///< and the next ones: whose turn to multiply it is
constexpr int k_group_barrier = 4;  ///< and the next: of a warpgroup
constexpr int k_all_barrier = 7;    ///< of those that compute

}  // namespace tessera::attention_sm90
