// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's matrix products as one kernel: what it launches is its own affair.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::cublaslt {

std::vector<KernelEntry> catalogue();

}  // namespace tessera::cublaslt
