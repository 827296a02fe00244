// SPDX-License-Identifier: Apache-2.0
// A generated token for the simulator of launches with roles (tessera/simulate/role_loop.hpp), without a GPU:
// the layers as one launch and the head as another, as Decoder::make() would have them.
#pragma once

#include <tessera/simulate/role_loop.hpp>

#include "kernels/decode/launch_times.hpp"
#include "kernels/decode/layer_plan.hpp"

namespace tessera::decode {

/// What decoders take on an H200 beside what role_machine() and ProductCosts say. Fitted to the record of
/// Llama-3.2-1B behind 1,024 cached tokens (results/h200/decode.json), each to the part that is named;
/// those of attention to its stamps in that of Llama-3-8B, too.
struct TokenCosts {
  double last_tile_ns = 973;    ///< a stage's mean tile is stored -> its last one: stamps, one sequence
  double turn_ns = 200;         ///< of the ring of weights: the layers of 16 sequences
  double two_in_flight = 0.89;  ///< of the memory's bandwidth, two slots on their way: the head, one sequence
  double head_result_ns = 1300;   ///< a further logit of a lane: the head of 16 sequences
  double turn_queries_ns = 400;   ///< queries are there -> turned and in registers: stamps
  double block_ns = 350;          ///< a warp attends to 16 positions: stamps of 16 sequences
  double block_element_ns = 3.1;  ///< ... for each element of a head more
  /// A layer more, if its weights are read in 8 us or less, and nothing from 24 on: the layers of Qwen3-0.6B
  /// and GPT-2.
  double small_layer_ns = 6000;
};

/// Both launches of a step.
struct TokenLaunches {
  RoleLoop layers;
  RoleMachine layers_machine;
  RoleLoop head;  ///< a block's parts of it are tiles, one behind the other
  RoleMachine head_machine;
  Cut cut;  ///< with what was chosen
};

/// Behind so many cached tokens of each sequence. Refuses as Decoder::make() does, without a GPU.
Expected<TokenLaunches> token_launches(Model const& model, int batch, int cached,
                                       MachineProfile const& machine, Cut const& cut = {},
                                       TokenCosts const& costs = {});

struct TokenPrediction {
  double layers_us = 0, head_us = 0;  ///< a launch with the gap before it, in a graph of many steps
  double floor_us = 0;                ///< reading the same bytes alone
  Cut cut;
  RolePrediction layers, head;  ///< of what is a persistent launch
  /// Of a step by launches: operators of a layer, empty where layers are persistent; and is the head?
  std::vector<OperatorAlone> operators;
  bool head_launched = false;

  double token_us() const { return layers_us + head_us; }
};
/// A token by StepBy::fastest is that of the way which predicted_steps() finds. Of many layers, or large
/// ones, the first few are simulated, and the others take as long as those behind the first. Refuses as
/// token_launches() and simulate_roles() do, and what takes longer than that.
Expected<TokenPrediction> predict_token(Model const& model, int batch, int cached,
                                        MachineProfile const& machine, Cut const& cut = {},
                                        StepBy by = StepBy::persistent, TokenCosts const& costs = {});

/// StepBy::launches where decided_by_prediction() and a token by launches is predicted to take
/// k_worth_launches; else `by`. Takes up to two seconds for large models. What was found is kept until the
/// process ends, by the name of the profile.
StepBy predicted_steps(StepBy by, Model const& model, int batch, int cached, MachineProfile const& machine);

}  // namespace tessera::decode
