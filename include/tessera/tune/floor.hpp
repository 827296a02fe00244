// SPDX-License-Identifier: Apache-2.0
// What no kernels can beat.
#pragma once

#include "tessera/describe/workload.hpp"

namespace tessera {

/// Microseconds: one operator after the other, each the longer of its operations at so many a second and its
/// bytes at so many a second, every operand read once and the output written once. 0 for a graph that tile()
/// refuses.
double floor_us(OperatorGraph const& graph, double flops_per_second, double bytes_per_second);

}  // namespace tessera
