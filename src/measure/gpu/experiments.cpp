// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/experiments.hpp"

#include "measure/gpu/list.hpp"

namespace tessera::probe {

std::vector<Experiment> const& experiments() {
  static std::vector<Experiment> const all = {
      {"warp", "sync and shuffle of groups of 1 to 32 threads", measure_warp},
  };
  return all;
}

}  // namespace tessera::probe
