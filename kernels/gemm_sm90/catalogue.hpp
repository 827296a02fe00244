// SPDX-License-Identifier: Apache-2.0
// The tile shapes of gemm_sm90 as data, without CUDA. kernels() is the same list as compiled code, one kernel
// for each form, type and gate.
#pragma once

#include <string>
#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::gemm_sm90 {

std::vector<KernelEntry> catalogue();

/// The compiled kernel's name, as find_kernel() knows it: "128x256x64_2x1_gated_fp16". Empty where the kernel
/// has no form for these.
std::string compiled_name(KernelEntry const& kernel, Epilogue epilogue, tessera::ElementType type);

}  // namespace tessera::gemm_sm90
