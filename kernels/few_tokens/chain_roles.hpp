// SPDX-License-Identifier: Apache-2.0
// A chain of MLPs for the simulator of launches with roles (tessera/simulate/role_loop.hpp): what a tile of
// its products does, and what that takes.
#pragma once

#include <tessera/simulate/role_loop.hpp>

#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::few_tokens {

/// What MatrixColumns takes on an H200, nanoseconds; each measured by leaving parts of the kernel out, or by
/// stamps (docs/design/notes-tile-operations.md, notes-skinny.md), none taken from the time of a chain.
struct ProductCosts {
  /// A warp multiplies 16 rows by 16 of the depth and 8 columns: 0.56 less 0.34 us are 8 of them.
  double step_ns = 27.5;
  double load_matrices_ns = 2.5;  ///< of it for an `ldmatrix`: 0.56 less 0.52 us are 16 of them
  double end_ns = 1200;           ///< last matrix instruction to last store, one token, with the barrier
  double store_ns = 79;           ///< a further store of a thread: 24 take 1.9 us
};

/// What a tile of a product that was cut does. `machine`: for matrix instructions beyond 8 columns.
RoleWork product_work(Product const& product, int columns, bool input_by_word, MachineProfile const& machine,
                      ProductCosts const& costs = {});

/// The chain as MlpChain::make() would run it on the machine. Refuses as that does, without a GPU.
Expected<RoleLoop> chain_roles(mlp::Shape const& shape, MlpChainConfig const& config,
                               MachineProfile const& machine, long long mlps, ProductCosts const& costs = {});

}  // namespace tessera::few_tokens
