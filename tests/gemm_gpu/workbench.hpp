// SPDX-License-Identifier: Apache-2.0
// Memory, references and checks for pairs of GEMMs on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gemm_gpu/pair.hpp"
#include "src/bench/operand_sets.hpp"

namespace tessera::gemm_test {

using namespace tessera::gemm_sm90;

/// Rounding the output to bf16 costs 1.65e-3 alone (h is compared after its rounding, y against a reference
/// that reads the rounded h): little is left for the arithmetic.
constexpr double allowed = 2e-3;

inline void check(cudaError_t error, char const* call, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s: %s\n", line, call, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) ::tessera::gemm_test::check(call, #call, __LINE__)

/// A mechanism with its policy and orders of tiles.
struct Case {
  char const* name;
  Mechanism mechanism;
  int columns_per_semaphore;
  bool early_weights;
  int blocks;
  int band;
  bool chained = false;
};
constexpr int whole_row = 1 << 20;
constexpr Case cases[] = {
    {"stream order", Mechanism::stream_order, 1, false, 0, 1},
    {"PDL", Mechanism::pdl, 1, true, 0, 1},
    {"PDL + row", Mechanism::pdl_tiles, whole_row, false, 0, 1},
    {"PDL + row, early", Mechanism::pdl_tiles, whole_row, true, 132, 1},
    {"PDL + tile", Mechanism::pdl_tiles, 1, false, 132, 0},
    {"PDL + tile, early", Mechanism::pdl_tiles, 1, true, 0, 4},
    {"PDL + 3 tiles, early", Mechanism::pdl_tiles, 3, true, 0, 0},
    {"PDL, chained", Mechanism::pdl, 1, true, 132, 1, true},
    {"PDL + tile, chained", Mechanism::pdl_tiles, 1, true, 132, 4, true},
    {"PDL + row, chained", Mechanism::pdl_tiles, whole_row, true, 0, 1, true},
};

PairPlan plan_of(Case const& one, Kernel const& first, Kernel const& second, int second_band = -1);

/// Device memory of one pair, for any form, and its references.
class Workbench {
 public:
  Workbench(int model, int hidden, int most_tokens);

  /// Fills with random numbers and makes the references.
  void fill(mlp::Form form, ElementType type, int tokens, unsigned seed, cudaStream_t stream);

  /// For what was filled last.
  PairBuffers const& buffers() const { return buffers_; }
  std::size_t h_count() const { return std::size_t(buffers_.tokens) * buffers_.hidden; }
  std::size_t y_count() const { return std::size_t(buffers_.tokens) * buffers_.model; }

  void poison_outputs(cudaStream_t stream) const;
  void reset() const;  ///< zeroes the counters and the stall record

  /// The worst of h's and y's errors; NaN if something was not written or a wait gave up.
  double error(cudaStream_t stream) const;

  /// Poisons and runs the pair so often (the epochs of all but the first come from memory): the worst error.
  double run(PairPlan const& plan, int launches, cudaStream_t stream) const;

  StallRecord stall() const;

 private:
  int most_tokens_;
  PairBuffers buffers_;
  bench::OperandSets memory_;
};

/// Parts of the test; each prints what it did and returns the number of failures.
int test_every_kernel(int most_tokens, unsigned seeds, cudaStream_t stream);
int test_every_token_count(unsigned seeds, cudaStream_t stream);
int test_two_streams();
int test_replays(int replays, cudaStream_t stream);
int test_stalls(cudaStream_t stream);
int test_for_sanitizer(cudaStream_t stream);

}  // namespace tessera::gemm_test
