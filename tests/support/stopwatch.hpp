// SPDX-License-Identifier: Apache-2.0
// How long something takes, where that is what a test is about.
#pragma once

#include <algorithm>
#include <ctime>
#include <limits>

namespace tessera::support {

/// Processor seconds of this program while `body` runs: what else runs on the host does not count, and caches
/// and cores that it takes away make single runs slow. So the least of several runs, up to the first below
/// `bound`: code that is too slow is too slow every time.
template <class Body>
double least_seconds(double bound, Body const& body, int most_runs = 5) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < most_runs && least >= bound; ++run) {
    auto const begin = std::clock();
    body();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace tessera::support
