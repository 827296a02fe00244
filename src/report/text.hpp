// SPDX-License-Identifier: Apache-2.0
// Plain text that lines up: tables, wrapped paragraphs, times and counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

inline constexpr int k_columns = 100;  ///< no line of a text report is longer

/// Rows of cells, padded to columns with two spaces between; the first row is the header. `right` names
/// columns to align on the right. Lines start with `indent` spaces and have none at the end. Cells of the
/// other columns are cut where the table would be wider than k_columns.
std::string table(std::vector<std::vector<std::string>> const& rows, std::vector<int> const& right,
                  int indent);

/// `label` in its own column, then `text` wrapped at words to `width` columns, with a hanging indent.
/// A word longer than the line is cut.
std::string labelled(std::string_view label, std::string_view text, int indent = 2, int label_width = 11,
                     int width = k_columns);

std::string cut(std::string text, std::size_t width);  ///< "..." at the end where something is missing

std::size_t display_width(std::string_view text);  ///< code points of UTF-8 text

std::string us(double microseconds);          ///< "212.4 us", "3.81 us"; three or four digits that matter
std::string us_number(double microseconds);   ///< the same without the unit
std::string us_of(std::int64_t picoseconds);  ///< "212.4 us"
std::string signed_us(double microseconds);   ///< "+5.0 us"
std::string percent(double share);            ///< 0.119 -> "11.9 %"
std::string plural(std::int64_t count, std::string_view noun);  ///< "1 wait", "96 waits"
std::string html(std::string_view text);                        ///< & < > " ' escaped

}  // namespace tessera::report
