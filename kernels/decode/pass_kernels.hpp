// SPDX-License-Identifier: Apache-2.0
// What a pass over prompts does between its products. Each launch is programmatic, whatever the kernel
// before.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/head.hpp"
#include "kernels/decode/pass_runs.hpp"
#include "kernels/decode/rotation_table.hpp"
#include "kernels/norm_rope/rope.hpp"

namespace tessera::decode {

/// Where rows of a pass stand, in device memory; made by begin_pass().
struct PassPlaces {
  int* positions = nullptr;      ///< of each row; -1: it reads nothing
  int* sequences = nullptr;      ///< of each row
  int* query_offsets = nullptr;  ///< [run + 1]: rows
  int* key_offsets = nullptr;    ///< [run + 1]: rows of keys that are brought from the cache
};

/// The cache of one layer.
struct LayerCache {
  void *keys = nullptr, *values = nullptr;
  CachePages pages;
  int capacity = 0;  ///< of a sequence; not looked at in pages
};

/// What launches by operator share with the rest of a decoder.
struct PassSurroundings {
  StepEnd end;
  void *keys = nullptr, *values = nullptr;
  Turn const* turns = nullptr;
  CacheShape cache;
  CachePages pages;

  LayerCache of_layer(int layer) const {
    auto const first = cache.row(layer, 0, 0, 0);
    return {bytes_behind(keys, first), bytes_behind(values, first), pages, cache.capacity};
  }
};

/// Embeds the tokens of a pass in `end.stream` and `end.x`, which have `rows` rows.
cudaError_t begin_pass(PassTable const& table, int rows, StepEnd const& end, PassPlaces const& places,
                       cudaStream_t stream);
/// Norms and turns queries and keys where they are, and stores keys and values to the cache.
cudaError_t take_heads(kernels::Heads const& heads, PassPlaces const& places, LayerCache const& cache,
                       cudaStream_t stream);
/// Keys and values of all positions that the runs see, from the cache: [key row][key head][head_size].
cudaError_t bring_keys(PassTable const& table, LayerCache const& cache, int key_heads, int head_size,
                       void* keys, void* values, cudaStream_t stream);
/// h = gelu(h + shifts) in place, by tanh; shifts may be null. [rows][columns] of bf16, columns a multiple
/// of 8.
cudaError_t add_and_gelu(void* h, float const* shifts, int rows, int columns, cudaStream_t stream);
/// Of runs that end: the last row of `stream` plus `shift` (null: as it is) goes to `end.stream` (null: to
/// nowhere), and rounded to `end.x`, as heads read it, and end.cached is where a step that generates would
/// have read the token.
cudaError_t end_pass(PassTable const& table, float const* stream_of_pass, float const* shift,
                     StepEnd const& end, cudaStream_t stream);

}  // namespace tessera::decode
