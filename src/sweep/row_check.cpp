// SPDX-License-Identifier: Apache-2.0
#include "sweep/row_check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

/// "E0606".
bool is_code(std::string const& text) {
  return text.size() == 5 && text[0] == 'E' &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return '0' <= c && c <= '9'; });
}

std::string shown(std::string const& text) { return text.substr(0, 60); }

}  // namespace

bool is_fingerprint(std::string const& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string RowCheck::problem(SweepRow const& row) {
  if (!is_fingerprint(row.inputs))
    return fmt::format("\"{}\" is no fingerprint of 16 hexadecimal digits", shown(row.inputs));
  if (!points_.insert(row.point).second) return fmt::format("point {} is there twice", row.point + 1);
  if (!inputs_.insert(row.inputs).second)
    return fmt::format("point {} has the inputs of another", row.point + 1);
  if (!row.refused.empty() && !is_code(row.refused))
    return fmt::format("\"{}\" is no code of a refusal", shown(row.refused));
  if (auto wrong = wrong_value(row); !wrong.empty()) return wrong;
  if (row.refused.empty()) return wrong_result(row);
  bool const none =
      std::all_of(row.results.begin(), row.results.end(), [](auto const& text) { return text.empty(); });
  return none ? "" : fmt::format("point {} was refused, and has results", row.point + 1);
}

std::string RowCheck::wrong_value(SweepRow const& row) const {
  if (rules_.parameters.empty()) return "";
  for (std::size_t a = 0; a < table_.axes.size() && a < row.values.size(); ++a) {
    bool known = false, fine = false;
    for (auto const& parameter : rules_.parameters) {
      if (parameter.name != table_.axes[a]) continue;
      known = true;
      auto const text = value_text(parameter, row.values[a]);
      fine = fine || (text && *text == row.values[a]);
    }
    if (!known) return fmt::format("there is no parameter \"{}\"", shown(table_.axes[a]));
    if (!fine) return fmt::format("{} cannot be \"{}\"", table_.axes[a], shown(row.values[a]));
  }
  return "";
}

std::string RowCheck::wrong_result(SweepRow const& row) const {
  if (!rules_.is_result) return "";
  for (std::size_t r = 0; r < table_.results.size() && r < row.results.size(); ++r)
    if (!rules_.is_result(table_.results[r], row.results[r]))
      return fmt::format("{} cannot be \"{}\"", shown(table_.results[r]), shown(row.results[r]));
  return "";
}

}  // namespace tessera
