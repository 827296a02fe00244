// SPDX-License-Identifier: Apache-2.0
// Attention of prompts for Hopper: out = softmax(scale * q * k^T) * v for each head of each sequence, bf16 or
// fp16 in and out, softmax and sums in fp32. One launch, which is capturable, allocates nothing and reads the
// lengths of the sequences from device memory, so that one captured graph serves all lengths.
#pragma once

#include <cuda_runtime_api.h>

#include <tessera/sync.cuh>
#include <tessera/sync/runtime_stage.cuh>

#include "tessera/diagnostic.hpp"
#include "tile_choice.hpp"

namespace tessera::attention_sm90 {

/// Enqueues it. `q`, `k`, `v` and `out` are device memory, 16-byte aligned; `out` may be `q`, if their
/// strides are the same, and nothing else. Refuses what the kernel cannot compute (E0590) and CUDA's errors
/// (E0511).
Expected<void> attention(Problem const& problem, void const* q, void const* k, void const* v, void* out,
                         cudaStream_t stream);

/// The same as a stage of a plan. A default stage neither waits nor posts.
struct Call {
  Problem problem;
  void const* q = nullptr;
  void const* k = nullptr;
  void const* v = nullptr;
  void* out = nullptr;
  /// Its grid is tiles_of() of `tile_queries`: heads first, then blocks of queries. A tile waits for all that
  /// the plan says it reads through operands 0 (q), 1 (k) and 2 (v) before it loads, and posts when its part
  /// of `out` is stored. Blocks take the order of the plan where it has one, else the longest tiles first.
  RuntimeStage stage;
  ChainMemory memory;     ///< of the plan; needed with waits and posts
  DeadlineWatch<> watch;  ///< nanoseconds > 0 and a record: needed with waits
  bool programmatic =
      false;  ///< starts when the kernel before has started (PDL) instead of when it is complete
  int shared_percent = -1;  ///< of an SM's memory that the launch wants as shared (gpu::Shape)
  /// Of a tile, one of tile_choices(). 0: 128; attention() takes what choose_tile_queries() says. Tiles of
  /// 192 look at keys in blocks of 64 and not of 128, so that last bits differ.
  int tile_queries = 0;
  /// In a plan, with query_offsets: the stage's blocks are those of the sequences one behind the other, as
  /// many as each has by itself, so many together. 0: each has as many as the longest, as tiles_of() says.
  int packed_blocks = 0;
};

Expected<void> launch(Call const& call, cudaStream_t stream);

/// Lets the kernels for a problem use their shared memory and loads their code (a lazily loaded kernel behind
/// one that spins would never start). launch() does it by itself, once a process and device; call it first
/// where something that spins may be on the GPU.
Expected<void> prepare(Problem const& problem);

/// What a planner has to know of a compiled kernel.
struct KernelInfo {
  char const* name = "";  ///< "attention_128", "attention_128_fp16", "attention_128_192": tiles of 192
  ElementType type = ElementType::bf16;
  int head_size = 0;  ///< see compiled_head_size()
  bool drops = false;
  int tile_queries = 0, tile_keys = 0;
  int stages = 0;  ///< blocks of keys, and of values, in flight
  int threads = 0;
  int registers = 0;  ///< per thread at launch; 0 where no GPU could be asked
  int shared_bytes = 0;
};

/// The kernel that computes a problem in tiles of so many queries, or the refusal. 0: of those of plans.
Expected<KernelInfo> kernel_for(Problem const& problem, int tile_queries = 0);

}  // namespace tessera::attention_sm90
