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

/// What launches take beside the bytes that they move. Fitted to operators alone, layers and heads of
/// Llama-3.2-1B and Qwen3-0.6B behind 1,024 cached tokens on H200s (results/h200/decode_launches*_paced.json,
/// and `between_us` and attention to *_ways.json and *_parts.json, with GPT-2 and shares of eight among
/// them); products by cuBLASLt to those of kernels before, on an H200 and an H100; `ours_sm_bytes_per_us` to
/// 64 sequences of Llama-3.2-1B, Llama-3-8B and Llama-3-70B's share of eight; `ours_bandwidth` and
/// `ours_head_bandwidth` to one sequence of Llama-3.2-1B and Llama-3-8B on H200s (decode_launches_l2.json,
/// decode_launches_8b_l2.json). On an H100 our products have not been measured.
struct LaunchCosts {
  double product_us = 3.0;          ///< a product by cuBLASLt begins and ends
  double product_bandwidth = 0.97;  ///< of the memory's, that it comes to
  /// Its depth is split among blocks, where columns are few: for each 1,024 beyond the first ones, and at
  /// most.
  double depth_us = 0.45, most_depth_us = 3.2;
  double ours_us = 1.3;  ///< the same of our kernel for few rows, whose weights are on their way before
  double ours_us_per_row = 0.025;
  double ours_bandwidth = 1.01;        ///< of memory.dram.read in the profile; cards differ by some percent
  double ours_sm_bytes_per_us = 50e3;  ///< that an SM loads, of weights and of the input
  double ours_added_us = 1.25;         ///< more where it reads what it adds to, and leaves a norm
  double ours_gpt_us = 0.25;           ///< more in models with biases throughout and GELU
  double ours_head_bandwidth = 0.975;
  double short_us = 1.1;  ///< a norm or an activation begins and ends
  double norm_us_per_mb = 0.7;
  double activation_us_per_mb = 0.25;
  double attention_us = 2.2;    ///< attention waits for the product before it; launched_work() has the rest
  double extras_us = 0.6;       ///< more where it norms queries and keys, or adds biases
  double between_us = 0.15;     ///< from a launch to the next, beside what each takes alone
  double head_bandwidth = 0.9;  ///< as product_bandwidth, of a product with so many columns
  double head_us = 7.5;         ///< more than another product and a search
  double us_per_mlogits = 3.1;  ///< a million logits are written in fp32 and searched, beside their bytes
};

struct LaunchedToken {
  std::vector<OperatorAlone> operators;  ///< of a layer; 0 us: in the operator before it
  double layers_us = 0, head_us = 0;
  double lone_head_us = 0;  ///< of a head behind persistent layers

  double token_us() const { return layers_us + head_us; }
};

/// Behind so many cached tokens of each sequence. Models and sizes are checked by the caller.
LaunchedToken predict_launches(Model const& model, int batch, int cached, MachineProfile const& machine,
                               LaunchCosts const& costs = {});

}  // namespace tessera::decode
