// SPDX-License-Identifier: Apache-2.0
// What a step by launches takes, operator by operator, without a GPU: a sum of launches, each what it begins
// with and what it moves.
#pragma once

#include <string>
#include <tessera/measure/generation.hpp>
#include <tessera/measure/machine_profile.hpp>
#include <vector>

#include "kernels/decode/layer_plan.hpp"

namespace tessera::decode {

/// What launches take on an H100 beside the bytes that they move. Fitted to operators alone of Llama-3.2-1B
/// and Llama-3-8B, 64 sequences behind 1,024 cached tokens each, in runs before
/// results/h100/decode_launches.json.
struct LaunchCosts {
  double product_us = 2.6;          ///< a product by cuBLASLt begins and ends
  double product_bandwidth = 0.93;  ///< of the memory's, that it comes to
  double depth_split_us = 1.5;      ///< its depth is split among blocks, where columns are few
  double short_us = 1.1;            ///< a norm or an activation begins and ends
  double norm_us_per_mb = 0.7;
  double activation_us_per_mb = 0.25;
  double heads_us = 2.2;  ///< what turns queries and keys
};

struct LaunchedToken {
  std::vector<OperatorAlone> operators;  ///< of a layer
  double layers_us = 0, head_us = 0;

  double token_us() const { return layers_us + head_us; }
};

/// Behind so many cached tokens of each sequence. Models and sizes are checked by the caller.
LaunchedToken predict_launches(Model const& model, int batch, int cached, MachineProfile const& machine,
                               LaunchCosts const& costs = {});

}  // namespace tessera::decode
