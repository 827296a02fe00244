// SPDX-License-Identifier: Apache-2.0
// Attention of generation as data: kernels that plans may have. What else a decoder launches is its own.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::decode {

/// For each head size, "cached_attention_128": one new token of each sequence over cached keys and values.
std::vector<KernelEntry> catalogue();

}  // namespace tessera::decode
