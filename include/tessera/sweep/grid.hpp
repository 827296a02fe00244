// SPDX-License-Identifier: Apache-2.0
// The points of a sweep: lists and ranges of parameters' values, their grid, and shares of it for several
// machines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "parameter.hpp"

namespace tessera {

struct SweepAxis {
  std::string name;
  std::vector<std::string> values;  ///< each as value_text() writes it, none twice

  bool operator==(SweepAxis const&) const = default;
};

/// Every combination; the last axis changes fastest.
struct SweepGrid {
  std::vector<SweepAxis> axes;

  std::size_t size() const;
  /// One setting for each axis. Precondition: point < size().
  std::vector<SweepSetting> point(std::size_t point) const;

  bool operator==(SweepGrid const&) const = default;
};

inline constexpr std::size_t k_most_points = 100'000;

/// "overlap.link_gbps=50,75,100" or "overlap.link_gbps=50:150:25" (first, last, step; the last belongs to it
/// where the steps meet it). E0920 and E0921 of its name and values, E0921 for an empty list, a value twice
/// and a range without end.
Expected<SweepAxis> parse_axis(std::string const& text, std::vector<Parameter> const& parameters);

/// The grid of those axes. E0921 if one parameter is given twice, E0922 with its size beyond k_most_points.
Expected<SweepGrid> parse_grid(std::vector<std::string> const& axes,
                               std::vector<Parameter> const& parameters);

/// Every of-th point, beginning with number - 1: the i-th of n machines' share.
struct SweepShard {
  std::size_t number = 1, of = 1;

  bool has(std::size_t point) const { return point % of == number - 1; }
  bool operator==(SweepShard const&) const = default;
};

/// "3/8", from 1/8 to 8/8. E0921.
Expected<SweepShard> parse_shard(std::string const& text);

}  // namespace tessera
