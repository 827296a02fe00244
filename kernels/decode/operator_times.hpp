// SPDX-License-Identifier: Apache-2.0
// Where the time of a step is, by operator, told by the stamps of its tiles: arithmetic, without a GPU.
#pragma once

#include <array>
#include <string>
#include <tessera/measure/generation.hpp>
#include <tessera/timeline.hpp>
#include <vector>

#include "kernels/decode/layer_plan.hpp"
#include "kernels/few_tokens/tile_times.hpp"

namespace tessera::decode {

/// Of each stage of the layers, [layer][tile].
using StepTimes = std::array<std::vector<few_tokens::TileTimes>, k_stages>;

/// "qkv", "attention", "out", "gate_up", "down".
char const* stage_name(Stage stage);
/// The same, and "norm", "mlp_norm", "activation".
char const* operator_name(LayerOperator which);

/// Of a layer, but the first, which waits for no other.
std::vector<OperatorTimes> operator_times(StepTimes const& times, int layers);

/// Of a layer what its attention block takes, qkv, attention and out: a sum of parts, and no chain of blocks
/// that was measured by itself.
double attention_block_us(std::vector<OperatorTimes> const& operators);

/// All tiles of a step's layers from the first one's begin on. Stages are the operators, their grids tiles ×
/// layers. Stamps do not say which SM a tile was on: rows are as few as hold the tiles that ran together.
Timeline step_timeline(StepTimes const& times, int layers, std::string const& name,
                       std::string const& machine);

}  // namespace tessera::decode
