// SPDX-License-Identifier: Apache-2.0
// A plan's attention of new tokens over a cache as the kernel's arguments.
#pragma once

#include "kernels/decode/launched_attention.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera {

/// Without what follows from the GPU, and without memory of the launch's own. The cache's rows lie as
/// kernels/decode keeps them (place_in_row()). E0560: heads, cache or lengths that do not fit. E0561:
/// tensors.
Expected<decode::LaunchedAttention> cached_attention_call(BindRequest const& request);

}  // namespace tessera
