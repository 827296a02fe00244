// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <algorithm>

namespace tessera::reduction {

Kernels const& kernels_of(Element element) {
  static Kernels const all[] = {fp32_kernels(), fp64_kernels(), int32_kernels()};
  return all[static_cast<int>(element)];
}

Kernel const* find_kernel(Element element, Config const& config) {
  auto const& all = kernels_of(element).first;
  auto const found = std::find_if(all.begin(), all.end(), [&](Kernel const& k) {
    return k.variant == config.variant && k.shape.loads == config.loads &&
           k.shape.threads == config.threads && k.shape.unroll == config.unroll;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tessera::reduction
