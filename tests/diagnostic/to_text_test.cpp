// SPDX-License-Identifier: Apache-2.0
// What is shown of text that stands in files.
#include <gtest/gtest.h>

#include "tessera/diagnostic.hpp"

namespace tessera {
namespace {

std::string shown(std::string const& name) {
  Diagnostic diagnostic;
  diagnostic.code = "E0000";
  diagnostic.message = "there is no " + name;
  return to_text(diagnostic);
}

TEST(DiagnosticText, cannot_move_a_cursor) {
  EXPECT_EQ(shown("\x1b[31mred\r\a\x7f"), "error E0000: there is no \\x1b[31mred\\x0d\\x07\\x7f");
  EXPECT_EQ(shown("fr\xc3\xbch"), "error E0000: there is no fr\xc3\xbch");
}

TEST(DiagnosticText, cannot_turn_or_break_a_line) {
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "b\xe2\x80\xa8 \xd8\x9c \xef\xbb\xbf"),
            "error E0000: there is no a\\u202eb\\u2028 \\u061c \\ufeff");
  EXPECT_EQ(shown("\xe2\x82\xac \xe2\x80"), "error E0000: there is no \xe2\x82\xac \xe2\x80");
}

TEST(DiagnosticText, shows_the_beginning_of_long_words) {
  EXPECT_EQ(shown(std::string(400, 'x') + " here"),
            "error E0000: there is no " + std::string(400, 'x') + " here");
  EXPECT_EQ(shown(std::string(1'000'000, 'x') + " here"),
            "error E0000: there is no " + std::string(400, 'x') + "... here");
}

}  // namespace
}  // namespace tessera
