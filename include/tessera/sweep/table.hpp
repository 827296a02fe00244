// SPDX-License-Identifier: Apache-2.0
// What a sweep found, a row for each point, and of which sweep they are, so that one can be
// continued, and put together from shares.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grid.hpp"

namespace tessera {

struct SweepRow {
  std::size_t point = 0;  ///< of the grid; written from 1 on
  std::string inputs;     ///< fingerprint of all that went in: rows with the same have the same results
  std::vector<std::string> values;   ///< of the axes
  std::string refused;               ///< the code under which the simulation refused this point; else empty
  std::vector<std::string> results;  ///< numbers as number_text() prints them, or words; empty: none here

  bool operator==(SweepRow const&) const = default;
};

struct SweepTable {
  std::string sweep;  ///< fingerprint of subject and grid
  std::size_t points = 0;
  std::vector<std::string> axes;
  std::vector<std::string> results;
  std::vector<SweepRow> rows;  ///< by point

  bool operator==(SweepTable const&) const = default;
};

/// What may stand in a table's cells. An empty member: anything.
struct SweepRules {
  std::vector<Parameter> parameters;  ///< that an axis may be; several of one name: the value of any of them
  std::function<bool(std::string const& column, std::string const& cell)> is_result;
};

/// 16 hexadecimal digits of 64 bits: the same on every machine.
std::string fingerprint(std::string const& text);

/// Header and rows, RFC 4180, but lines end with a newline only.
std::string print_sweep_csv(SweepTable const& table);
/// E0923 with the line if it is no such table: other columns, a cell that the rules do not allow, a point
/// twice, a refusal that is no code or has results.
Expected<SweepTable> parse_sweep_csv(std::string_view text, std::string const& file,
                                     SweepRules const& rules = {});

/// All points of one sweep from its shares, each with the file that it is from. E0924 for files of different
/// sweeps, points that are missing and points that are there twice, with their numbers.
Expected<SweepTable> merge(std::vector<std::pair<std::string, SweepTable>> const& shares);

/// Rows of a file whose inputs are those of a point of this sweep, as that point's. E0923 if there are
/// others, which would be lost, and if the file says of which sweep it is and its points are another's.
Expected<std::vector<SweepRow>> rows_to_keep(SweepTable const& file, std::string const& name,
                                             SweepTable const& wanted);

}  // namespace tessera
