// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "tessera/sweep/table.hpp"

namespace tessera {

/// 16 hexadecimal digits, as fingerprint() writes them.
bool is_fingerprint(std::string const& text);

/// Holds the rows of one file against each other and against rules, one after the other.
class RowCheck {
 public:
  /// Both must outlive this, and the table's columns must be there.
  RowCheck(SweepTable const& table, SweepRules const& rules) : table_(table), rules_(rules) {}

  /// What is wrong with the next row; empty if nothing.
  std::string problem(SweepRow const& row);

 private:
  std::string wrong_value(SweepRow const& row) const;
  std::string wrong_result(SweepRow const& row) const;

  SweepTable const& table_;
  SweepRules const& rules_;
  std::set<std::size_t> points_;
  std::set<std::string> inputs_;
};

}  // namespace tessera
