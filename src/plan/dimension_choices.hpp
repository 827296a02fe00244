// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "tessera/describe/pipeline.hpp"
#include "tessera/sync/policy.cuh"

namespace tessera {

/// For each producer dimension the maps that group what some consumer tile needs together, `each` first; of
/// columns also those that tiles need of which other dependences read one each, a stride apart.
/// Unused dimensions have `each` alone.
std::array<std::vector<DimensionMap>, k_max_rank> dimension_choices(Pipeline const& pipeline,
                                                                    Dependence const& dependence);

/// One spelling per meaning for an extent.
DimensionMap normalized(DimensionMap map, int extent);

inline bool same(DimensionMap const& a, DimensionMap const& b) {
  return a.grouping == b.grouping && a.width == b.width;
}

}  // namespace tessera
