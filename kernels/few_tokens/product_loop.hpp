// SPDX-License-Identifier: Apache-2.0
// Loops of products of matrices with few columns, each in one launch: compiled kernels behind plain values.
#pragma once

#include <functional>
#include <tessera/run/run_roles.hpp>

#include "kernels/few_tokens/product.hpp"
#include "src/gpu/element_type.hpp"

namespace tessera::few_tokens {

struct ProductLoop {
  std::function<Expected<void>(GpuStream, long long iterations)> launch;
  std::function<Expected<void>()> finish;
  std::function<bool()> stalled;  ///< as LoopChain::stalled()
};

/// A loop all of whose stages are products of one operation, for up to `columns` tokens: 8, 16, 32 or 64.
/// `stages`: one for each stage of the body, in device memory.
Expected<ProductLoop> product_loop(LoopPlan const& plan, RoleOptions const& options, gpu::ElementType type,
                                   int columns, Product const* stages);

}  // namespace tessera::few_tokens
