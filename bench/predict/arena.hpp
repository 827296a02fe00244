// SPDX-License-Identifier: Apache-2.0
// The operands of an MLP's two GEMMs, with references.
#pragma once

#include "bench/mlp/timing.hpp"
#include "kernels/gemm_sm90/pair.hpp"

namespace tessera::bench {

constexpr int sets = 4;  // of buffers, in rotation

struct Model {
  char const* name;
  int model;
  int hidden;
};

/// Buffers for all sizes of a model, filled with random numbers.
struct Arena {
  Model model;
  int most_tokens;
  gemm_sm90::PairBuffers set[sets];
  float* h_reference[sets];
  float* y_reference[sets];
  void* h_rounded;
  unsigned long long* counters;
  long long counter_words;
  long long counters_used = 0;
};

Arena make_arena(Model const& model, int most_tokens, cudaStream_t stream);
void release(Arena& arena);

/// Sets the number of tokens, makes the references, and zeroes the counters.
void start_size(Arena& arena, int tokens, cudaStream_t stream);

/// Runs the variant on all sets from poisoned outputs: the worst relative error of h and y, NaN if a part was
/// not written or a wait gave up.
double verify(Arena const& arena, Variant const& variant, cudaStream_t stream);

}  // namespace tessera::bench
