// SPDX-License-Identifier: Apache-2.0
// A run's results as JSON: the "values" of a record that scripts/gpu_check completes.
#pragma once

#include <string>
#include <vector>

#include "size_bench.hpp"

namespace tessera::bench {

struct Run {
  std::string model;
  double read_bandwidth = 0;  ///< bytes per second, measured in this run
  double flops = 0;           ///< per second, for the floor
  std::vector<SizeResult> sizes;
};

std::string to_json(Run const& run);

}  // namespace tessera::bench
