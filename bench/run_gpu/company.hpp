// SPDX-License-Identifier: Apache-2.0
// What a launch costs the host beside other chains of the process.
#pragma once

#include <string>
#include <vector>

namespace tessera::run_bench {

constexpr int k_others = 100;

/// Host microseconds of one ChainGraph::launch(), queue not full: a sample for each round.
struct Company {
  std::string plan;
  std::vector<double> alone_us;
  std::vector<double> beside_us;  ///< while `k_others` chains of the same plan are there, and idle
};

/// A plan that counts no SMs, and one that does. In each round alone and then beside the others. Ends the
/// program where something fails.
std::vector<Company> measure_company(int rounds);

}  // namespace tessera::run_bench
