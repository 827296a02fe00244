// SPDX-License-Identifier: Apache-2.0
// A layer as a graph of cuDNN's operations, and what its heuristics offer for it.
#pragma once

#include "kernels/cudnn/backend.hpp"
#include "kernels/cudnn/convolution.hpp"

namespace tessera::cudnn {

/// Of tensors; from the last on those between operations.
enum : std::int64_t { k_x = 1, k_w, k_bias, k_y, k_residual, k_between };

/// The convolution, and behind it bias, residual and ReLU where the layer has them. Throws Refused.
Descriptor graph_of(Problem const& problem, Handle const& handle);

/// Configurations of engines that a mode of the heuristics offers, the best guess first. Throws Refused.
std::vector<Descriptor> configurations(Descriptor const& graph, cudnnBackendHeurMode_t mode);

}  // namespace tessera::cudnn
