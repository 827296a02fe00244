// SPDX-License-Identifier: Apache-2.0
// A chain of MLPs for few tokens as a loop of two products, and how its work is cut: arithmetic, without a
// GPU.
#pragma once

#include <array>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/plan/loop_plan.hpp>
#include <vector>

#include "kernels/common/mlp_problem.hpp"
#include "kernels/few_tokens/product_cut.hpp"

namespace tessera::few_tokens {

constexpr int k_most_tokens = 64;

/// What is around the products of an MLP, as in a decoder layer: x + MLP(x / root mean square of x). The
/// gains of RMSNorm are multiplied into the columns of w1 beforehand.
struct MlpSurroundings {
  float norm_epsilon = 0;  ///< above 0: with RMSNorm
  bool residual = false;
};

/// How the work is cut; what is 0 follows from the shape.
struct MlpChainConfig {
  int workers = 0;     ///< blocks, all resident; 0: one for each SM
  int slot_bytes = 0;  ///< of weights
  int slots = 0;
  int in_flight = 2;          ///< slots of weights on their way at once, at a tile's beginning; 0: all
  int in_flight_within = 0;   ///< and later on
  int late_slots = 0;         ///< of activations; fewer where they leave too little room for weights
  int late_slot_bytes = 0;    ///< about
  bool starts_early = false;  ///< RoleOptions
  /// Results travel as words that carry the iteration (token_words.cuh), not behind semaphores: for up to 2
  /// tokens.
  bool tokens_in_data = false;
  /// 2: pairs of blocks share the depth of their tiles, so that each loads half of the activations; products
  /// that cannot are computed as without.
  int cluster_blocks = 1;
  double deadline_seconds = 2;
};

/// What a tuner may try for so many tokens. Which is fastest differs from model to model: measure.
std::vector<MlpChainConfig> chain_configs(int tokens);
/// "words, slots of 24 KB, 2 in flight, 8 of activations".
std::string to_string(MlpChainConfig const& config);

/// Refuses (E0565) what no chain is for.
Expected<void> check_chain(mlp::Shape const& shape, MlpChainConfig const& config,
                           MlpSurroundings const& around = {});
/// Columns of the kernel for so many tokens: 8, 16, 32 or 64.
int columns_for(int tokens);
ProductOptions options_of(MlpChainConfig const& config);
/// The products up and down, without matrices. `producer_tiles`: 0 where results travel as words.
std::array<Product, 2> chain_products(mlp::Shape const& shape, int producer_tiles,
                                      MlpSurroundings const& around = {});
/// The loop of both: up reads what down wrote an iteration before. Refuses as plan_loop() does.
Expected<LoopPlan> plan_chain(MlpChainConfig const& config, MachineProfile const& machine, int workers,
                              MlpSurroundings const& around = {});

}  // namespace tessera::few_tokens
