// SPDX-License-Identifier: Apache-2.0
// The tiles of attention as data, without CUDA; kernel_for() is what is compiled. For planning and
// simulation: no binding launches them in a plan yet, a caller's StageKernel does (docs/attention.md).
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::attention_sm90 {

/// Without dropout. Names as KernelInfo has them, forms of both types under that of bf16.
std::vector<KernelEntry> catalogue();

}  // namespace tessera::attention_sm90
