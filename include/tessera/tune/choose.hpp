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

/// What the GPU is like when the work comes, which decides among kernels: at the power limit those that cost
/// little energy are fast, at full clock those that cost few cycles.
enum class Load {
  any,     ///< not known: both count
  steady,  ///< back to back: hot
  bursts,  ///< with pauses: cool
};

char const* to_text(Load load);  ///< "any", "steady", "bursts"

/// Both conditions at once: the geometric mean of hot and cool.
double score(Measurement const& one);
/// The time that counts for this load.
double score(Measurement const& one, Load load);

struct Decision {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t chosen = none;    ///< none: no measurement is right
  std::size_t baseline = none;  ///< the fastest baseline; none: no baseline is right
  std::string reason;           ///< one sentence
};

/// The right candidate with the best score for this load among those that, against the right baseline of the
/// best score, are faster in score by more than `least_gain` and more than both noises, and for Load::any
/// neither slower when hot nor when cool. If there is none: that baseline. Without a baseline: the best
/// score. Times that are not positive and finite count as wrong. Ties go to the first.
Decision decide(std::vector<Measurement> const& measured, double least_gain, Load load = Load::any);

/// Successive halving: indices of the `keep` best times, best first, and the best `baselines` of those that
/// are baselines whatever their place. Times that are not positive and finite never survive.
std::vector<std::size_t> survivors(std::vector<double> const& times, std::vector<bool> const& is_baseline,
                                   std::size_t keep, std::size_t baselines);

}  // namespace tessera
