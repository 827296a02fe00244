// SPDX-License-Identifier: Apache-2.0
// An MLP as operators.
#pragma once

#include <tessera/describe/workload.hpp>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::mlp {

/// Buffers x, w1, h, w2 and y, as Buffers has them.
OperatorGraph graph_of(Shape const& shape);

}  // namespace tessera::mlp
