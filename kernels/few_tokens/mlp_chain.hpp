// SPDX-License-Identifier: Apache-2.0
// MLPs one behind the other in one persistent launch, each with weights of its own: two products as
// operations with roles (tessera/run/roles.cuh), and a loop over them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::few_tokens {

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

class MlpChain {
 public:
  /// Refuses (E0565) shapes that it is not for, and as plan_loop() and role_chain() do.
  static Expected<MlpChain> make(mlp::Shape const& shape, MlpChainBuffers const& buffers,
                                 MlpChainConfig const& config = {}, MlpSurroundings const& around = {});
  /// Enqueues so many MLPs; may be captured. Refuses as Chain::launch() of the library does, also (E0520)
  /// where a launch before has stalled.
  Expected<void> launch(cudaStream_t stream, long long mlps);
  Expected<void> finish();
  /// Has a wait met its deadline since then? One load of host memory; then results are not to be used.
  bool stalled() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::few_tokens
