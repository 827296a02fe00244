// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem.hpp"

namespace tessera::attention_sm90 {

/// Of the kernel that launch() takes for a problem in tiles of so many queries; null: kernel_for() refuses.
void const* kernel_address(Problem const& problem, int tile_queries);

}  // namespace tessera::attention_sm90
