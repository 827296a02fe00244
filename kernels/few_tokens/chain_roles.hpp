// SPDX-License-Identifier: Apache-2.0
// A chain of MLPs for the simulator of launches with roles (tessera/simulate/role_loop.hpp): what a tile of
// its products does, and what that takes.
#pragma once

#include <tessera/simulate/role_loop.hpp>

#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::few_tokens {

/// What MatrixColumns takes on an H200, nanoseconds; each by time stamps inside tiles, waits left out
/// (docs/design/notes-tile-operations.md), none taken from the time of a chain.
struct ProductCosts {
  /// A warp multiplies 16 rows by 16 of the depth and 8 columns: a slot of 4 k-blocks and 3 such tiles takes
  /// 0.32 us, of 3 and 4 tiles 0.30, of which 0.12 are a turn of the ring.
  double tile_step_ns = 31;
  double load_matrices_ns = 2.5;  ///< a further `ldmatrix` of activations in a step
  double end_ns = 800;            ///< last matrix instruction to last store, one result to a lane
  double result_ns = 180;         ///< a further result of a lane: 1 and 3 more take 0.46 and 0.27 us
};

/// What a tile of a product that was cut does. `machine`: for matrix instructions beyond 8 columns.
RoleWork product_work(Product const& product, int columns, bool input_by_word, MachineProfile const& machine,
                      ProductCosts const& costs = {});

/// The chain as MlpChain::make() would run it on the machine. Refuses as that does, without a GPU.
Expected<RoleLoop> chain_roles(mlp::Shape const& shape, MlpChainConfig const& config,
                               MachineProfile const& machine, long long mlps, ProductCosts const& costs = {});

}  // namespace tessera::few_tokens
