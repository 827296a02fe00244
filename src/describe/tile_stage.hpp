// SPDX-License-Identifier: Apache-2.0
// One stage of what tile() makes, without the tiles that others read, which take most of its time.
#pragma once

#include <vector>

#include "tessera/describe/workload.hpp"

namespace tessera {

/// Stage i of tile(graph, choices). Refuses choices that tile() refuses, but for sizes of other stages, and
/// for their kernels where no operator has groups. Precondition: the graph has no problems.
Expected<Stage> tile_stage(OperatorGraph const& graph, std::vector<TileChoice> const& choices, std::size_t i);

}  // namespace tessera
