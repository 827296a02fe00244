// SPDX-License-Identifier: Apache-2.0
// Which of several measured candidates is taken. Pure: the same measurements, the same choice.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

/// One candidate, measured in turns with the others. Microseconds, medians.
struct Measurement {
  std::string candidate;
  bool baseline = false;  ///< what is taken unless something else is faster beyond doubt
  bool right = false;     ///< its result was compared with a reference
  double hot_us = 0;
  double cool_us = 0;
  double noise = 0;  ///< how far the same candidate may be off when measured again, as a part of its time
};

/// Both conditions at once: the geometric mean of hot and cool.
double score(Measurement const& one);

struct Decision {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t chosen = none;    ///< none: no measurement is right
  std::size_t baseline = none;  ///< the fastest baseline; none: no baseline is right
  std::string reason;           ///< one sentence
};

/// The right candidate with the best score among those that, against the fastest right baseline, are not
/// slower when hot, not slower when cool, and in score faster by more than `least_gain` and more than both
/// noises. If there is none: that baseline. Without a baseline: the best score. Times that are not positive
/// and finite count as wrong. Ties go to the first.
Decision decide(std::vector<Measurement> const& measured, double least_gain);

/// Successive halving: indices of the `keep` best times, best first, and the best `baselines` of those that
/// are baselines whatever their place. Times that are not positive and finite never survive.
std::vector<std::size_t> survivors(std::vector<double> const& times, std::vector<bool> const& is_baseline,
                                   std::size_t keep, std::size_t baselines);

}  // namespace tessera
