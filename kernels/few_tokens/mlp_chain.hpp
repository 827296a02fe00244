// SPDX-License-Identifier: Apache-2.0
// MLPs one behind the other in one persistent launch, each with weights of its own: two products as
// operations with roles (tessera/run/roles.cuh), and a loop over them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::few_tokens {

constexpr int k_most_tokens = 32;

/// Weights of one MLP; mlp::Buffers says how they lie.
struct MlpWeights {
  void const* w1 = nullptr;
  void const* w2 = nullptr;
};

/// Iteration n computes x[n % 2] of x[(n + 1) % 2], with the weights of MLP n modulo their number: the first
/// one reads x[1]. All are device memory, 16-byte aligned.
struct MlpChainBuffers {
  void* x[2] = {};
  void* h = nullptr;
  std::vector<MlpWeights> weights;
};

/// How the work is cut; what is 0 follows from the shape.
struct MlpChainConfig {
  int workers = 0;     ///< blocks, all resident; 0: one for each SM
  int slot_bytes = 0;  ///< of weights
  int slots = 0;
  int in_flight = 0;          ///< slots of weights on their way at once; 0: all
  int late_slots = 0;         ///< of activations; fewer where they leave too little room for weights
  bool starts_early = false;  ///< RoleOptions
  /// Results travel as words that carry the iteration (token_words.cuh), not behind semaphores: for up to 2
  /// tokens.
  bool tokens_in_data = false;
  double deadline_seconds = 2;
};

/// What a tuner may try for so many tokens. Which is fastest differs from model to model: measure.
std::vector<MlpChainConfig> chain_configs(int tokens);
/// "words, slots of 24 KB, 2 in flight, 8 of activations".
std::string to_string(MlpChainConfig const& config);

class MlpChain {
 public:
  /// Refuses (E0565) shapes that it is not for, and as plan_loop() and role_chain() do.
  static Expected<MlpChain> make(mlp::Shape const& shape, MlpChainBuffers const& buffers,
                                 MlpChainConfig const& config = {});
  /// Enqueues so many MLPs; may be captured.
  Expected<void> launch(cudaStream_t stream, long long mlps);
  Expected<void> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::few_tokens
