// SPDX-License-Identifier: Apache-2.0
// What no kernel has more of.
#pragma once

namespace tessera {

/// Slices in flight in one block lie beside each other in its shared memory: 256 KiB of what cp.async and TMA
/// copy at least, 16 bytes.
inline constexpr int k_most_pipeline_stages = 256 * 1024 / 16;

}  // namespace tessera
