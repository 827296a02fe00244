// SPDX-License-Identifier: Apache-2.0
// What the pages of plans and of timelines have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/timeline.hpp"

namespace tessera::report {

std::string page_head(std::string const& title);  ///< up to the heading
/// An element of class "tessera" up to its heading, with the styles for that class alone; ends with
/// k_fragment_end.
std::string fragment_head(std::string const& title);
inline constexpr char const* k_fragment_end = "</div>\n";

/// Text as HTML: "a -> b" with an arrow that does not begin a line.
std::string html_arrows(std::string_view text);

std::string note_lines(std::vector<std::string> const& notes);

struct Column {
  std::string name;
  enum Kind { text, number, long_text } kind = text;
};
/// Cells are HTML already. On a phone every cell shows its column's name beside it.
std::string html_table(std::vector<Column> const& columns, std::vector<std::vector<std::string>> const& rows);

/// What the colours and hatches of a timeline's drawings mean.
std::string legend(Timeline const& timeline);

/// A timeline on an axis from 0 to `scale` ps, with its tracks and counters below.
std::string drawing(std::string_view caption, Timeline const& timeline, std::int64_t scale);

}  // namespace tessera::report
