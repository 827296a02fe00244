// SPDX-License-Identifier: Apache-2.0
// What T3's paper states beside what came out here, and whether the mechanism that the paper credits did it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct OverlapStudy;

enum class Reproduction : std::uint8_t {
  not_comparable,  ///< not the paper's machine and models, or the paper states no number
  reproduced,      ///< within the tolerance, and every control holds
  by_other_means,  ///< within the tolerance, but a control shows that something else did it
  missed,
};
char const* to_text(Reproduction verdict);  ///< "reproduced", "by other means", "missed", ""

/// A quantity that tells whether a mechanism is at work: mostly the headline's own with the mechanism
/// switched off.
struct Control {
  std::string name;  ///< what was switched off
  double value = 0;
  std::string need;  ///< what the value has to be, "at most 1.238"
  bool holds = false;
};

struct Headline {
  std::string name;
  double value = 0;
  double paper = 0;            ///< 0: nothing to compare with
  double least = 0, most = 0;  ///< the values that count as the paper's
  std::vector<Control> controls;

  Reproduction verdict() const;
};

/// Rows in the order of the paper's sections. Tolerances of ideal overlap, fused runs and traffic were set
/// before the first run; the others, and all controls, with an earlier record at hand.
std::vector<Headline> headlines(OverlapStudy const& study);

/// The value of a row by its name; nothing if the study has no such row.
double const* headline_value(std::vector<Headline> const& rows, std::string const& name);

/// Geometric mean and largest value.
struct Spread {
  double mean = 0;
  double most = 0;
  int count = 0;
};
Spread spread_of(std::vector<double> const& values);

}  // namespace tessera
