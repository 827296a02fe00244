// SPDX-License-Identifier: Apache-2.0
// From which input size on it pays to let more threads, blocks or GPUs work, though they must synchronize:
// Little's law, Eq. 1 to 5 of Zhang et al., IPDPS 2020.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// One way to work: what a first result takes, and how fast results come when saturated. Any unit of time,
/// the same everywhere.
struct Level {
  double latency = 0;     ///< T
  double throughput = 0;  ///< Thr, bytes per unit of time
};

/// Eq. 1: bytes in flight at saturation.
double concurrency(Level const& level);

/// Eq. 2 and 3: time to work through `bytes`, `sync` included for the many.
double time_of(Level const& level, double sync, double bytes);

enum class SwitchRegime {
  within_concurrency,  ///< Eq. 4: the few are saturated, the many are not
  beyond_concurrency,  ///< Eq. 5: both are saturated
  never,               ///< the many are no faster
};

/// Below `bytes` the few are faster; infinite for `never`.
struct SwitchPoint {
  double bytes = 0;
  SwitchRegime regime = SwitchRegime::never;
};
SwitchPoint switch_point(Level const& few, Level const& many, double sync);

/// T and Thr from times of growing inputs: the smallest input's time, and the slope of the upper half. Zeros
/// for fewer than four points.
Level fit_level(std::vector<double> const& bytes, std::vector<double> const& time);

/// Where two measured curves over the same sizes cross for good, by interpolation between sizes; infinite if
/// the many never win at the end, the first size if they always do.
double crossing(std::vector<double> const& bytes, std::vector<double> const& few,
                std::vector<double> const& many);

}  // namespace tessera
