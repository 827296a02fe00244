// SPDX-License-Identifier: Apache-2.0
// What may stand in generated C++ as a name, a string or a comment.
#pragma once

#include <string>
#include <string_view>

namespace tessera::generate {

/// Letters, digits and underscores, not starting with a digit; no keyword, no macro, no name that the
/// language or the compilers reserve.
bool is_identifier(std::string_view name);

/// Any text as an identifier, for the header's namespace.
std::string as_identifier(std::string_view text);

/// Two parts of an identifier, with one underscore in between: two in a row are reserved.
std::string joined(std::string_view before, std::string_view after);

/// Escaped for a string literal, without the quotes.
std::string as_string(std::string_view text);

/// One line of printable text, safe behind "//".
std::string as_comment(std::string_view text);

}  // namespace tessera::generate
