// SPDX-License-Identifier: Apache-2.0
// Gate and up, side by side.
#pragma once

#include <cuda_runtime_api.h>

#include "src/gpu/element_type.hpp"

namespace tessera::kernels {

/// w1[2 * hidden][model] as the kernels want it (gate f in row 2 * f, up f in row 2 * f + 1) from the two
/// matrices gate[hidden][model] and up[hidden][model] that models are stored as. `model` is a multiple of 8.
cudaError_t interleave_gate_up(void const* gate, void const* up, void* w1, int hidden, int model,
                               cudaStream_t stream);

/// h[tokens][hidden] = silu(gate) . up from gate_up[tokens][2 * hidden], gate and up alternating.
/// Its launch is programmatic, whatever the kernel before.
cudaError_t swiglu(void const* gate_up, void* h, int tokens, int hidden, gpu::ElementType type,
                   cudaStream_t stream);

}  // namespace tessera::kernels
