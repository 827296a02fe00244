// SPDX-License-Identifier: Apache-2.0
// Products whose matrices no shipped kernel for Hopper can load.
#pragma once

#include "tessera/describe/workload.hpp"
#include "tessera/diagnostic.hpp"

namespace tessera::cli {

/// E0530 for each product whose rows, and for heads that, do not begin at multiples of 16 bytes. Of batched
/// products nothing is said: there are no kernels for any.
Diagnostics odd_sizes(OperatorGraph const& graph, Severity severity);

}  // namespace tessera::cli
