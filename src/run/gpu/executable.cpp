// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/bindings.hpp"

namespace tessera {

Expected<Executable> Executable::make(Plan const& plan, Registry const& kernels, Bindings const& bindings,
                                      Tensors const& tensors, ChainOptions const& options) {
  auto bound = bind_kernels(plan, kernels, bindings, tensors);
  if (!bound) return tl::make_unexpected(bound.error());
  auto chain = Chain::make(plan, *bound, options);
  if (!chain) return tl::make_unexpected(chain.error());
  return Executable(std::move(*chain));
}

}  // namespace tessera
