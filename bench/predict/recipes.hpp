// SPDX-License-Identifier: Apache-2.0
// What recorded plans are made of again: their operators, and kernels that have a price.
#pragma once

#include <cstdint>

#include "tessera/describe/workload.hpp"
#include "tessera/plan/named_recipe.hpp"

namespace tessera::bench {

struct MlpShape {
  std::int64_t model = 0, hidden = 0, tokens = 0;
  bool swiglu = false;
};
OperatorGraph mlp_graph(MlpShape const& shape);
/// One product without an activation.
OperatorGraph gemm_graph(std::int64_t rows, std::int64_t columns, std::int64_t depth);

/// With gemm_sm90's kernels in place of CUTLASS's own ("cutlass_<tile>"), which are taken to cost the same.
NamedRecipe priced(NamedRecipe recipe);

}  // namespace tessera::bench
