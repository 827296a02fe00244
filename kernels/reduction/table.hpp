// SPDX-License-Identifier: Apache-2.0
// Which kernels are compiled.
#pragma once

#include <vector>

#include "workspace.cuh"

namespace tessera::reduction {

struct Kernels {
  std::vector<Kernel> first;
  void const* second;  ///< of two launches: (Arguments, unsigned count)
  int second_threads;
};
Kernels fp32_kernels();
Kernels fp64_kernels();
Kernels int32_kernels();

Kernels const& kernels_of(Element element);
/// Null if there is none for this configuration.
Kernel const* find_kernel(Element element, Config const& config);

}  // namespace tessera::reduction
