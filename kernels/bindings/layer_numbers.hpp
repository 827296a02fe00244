// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tessera {

/// Of norms in plans, which do not say theirs: added to the mean square of a row. Gains and the means that
/// LayerNorm subtracts are in the weights behind, as kernels/decode packs them.
constexpr float k_layer_epsilon = 1e-5f;

}  // namespace tessera
