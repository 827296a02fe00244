// SPDX-License-Identifier: Apache-2.0
// Experiments of the probe on these kernels. They stand here, and not in src/measure/gpu, because no module
// may know a kernel: tessera-probe adds them to the probe's own.
#pragma once

#include "measure/gpu/experiments.hpp"

namespace tessera::probe {

void measure_reduce(Context const& context, Probe& probe);
void measure_switch(Context const& context, Probe& probe);

inline std::vector<Experiment> reduction_experiments() {
  return {{"reduce", "sums by a warp, a block and the GPU", measure_reduce},
          {"switch", "from which size on more threads pay", measure_switch}};
}

}  // namespace tessera::probe
