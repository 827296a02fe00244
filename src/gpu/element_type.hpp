// SPDX-License-Identifier: Apache-2.0
// Element types of matrices: what kernels and the code that measures them agree on.
#pragma once

namespace tessera::gpu {

enum class ElementType { bf16, fp16 };  ///< of all matrices of a product; sums are fp32

}  // namespace tessera::gpu
