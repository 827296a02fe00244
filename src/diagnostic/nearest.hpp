// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The candidate with the least edit distance to `word` (letter case ignored), if it is close enough to be
/// a slip of the hand: at most a third of the longer word's length, at least 1. Empty if none is.
std::string nearest(std::string_view word, std::vector<std::string> const& candidates);

/// The candidate that `word` is a slip of: both long (8 letters and more), and two edits apart at most. Empty
/// if none is. For texts that may hold other words of their own.
std::string slip_of(std::string_view word, std::vector<std::string> const& candidates);

/// `did you mean "hidden_size"?`, or an empty text when nothing is near.
std::string did_you_mean(std::string_view word, std::vector<std::string> const& candidates);

/// "a, b and c", to list what would have been right.
std::string list_of(std::vector<std::string> const& words, std::string_view last_joint = "and");

}  // namespace tessera
