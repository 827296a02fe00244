// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/product_loop.hpp"

#include <memory>

#include "kernels/few_tokens/product.cuh"

namespace tessera::few_tokens {
namespace {

template <class Element, int N>
Expected<ProductLoop> loop_of(LoopPlan const& plan, RoleOptions const& options, Product const* stages) {
  auto made = role_chain(plan, options, MatrixColumns<Element, N>{stages});
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return ProductLoop{
      [chain](GpuStream stream, long long iterations) { return chain->launch(stream, iterations); },
      [chain] { return chain->finish(); }, [chain] { return chain->stalled(); }};
}

template <class Element>
Expected<ProductLoop> of_columns(LoopPlan const& plan, RoleOptions const& options, int columns,
                                 Product const* stages) {
  if (columns <= 8) return loop_of<Element, 8>(plan, options, stages);
  if (columns <= 16) return loop_of<Element, 16>(plan, options, stages);
  if (columns <= 32) return loop_of<Element, 32>(plan, options, stages);
  return loop_of<Element, 64>(plan, options, stages);
}

}  // namespace

Expected<ProductLoop> product_loop(LoopPlan const& plan, RoleOptions const& options, gpu::ElementType type,
                                   int columns, Product const* stages) {
  return type == gpu::ElementType::bf16 ? of_columns<__nv_bfloat16>(plan, options, columns, stages)
                                        : of_columns<__half>(plan, options, columns, stages);
}

}  // namespace tessera::few_tokens
