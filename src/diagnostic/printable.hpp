// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The text with each control character but newlines and tabs written out (\x1b), and what turns or breaks a
/// line or is not seen (\u202e), so that a name from a file cannot move a terminal's cursor, change its
/// colours or title, or hide a line.
std::string printable(std::string_view text);

}  // namespace tessera
