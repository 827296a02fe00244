// SPDX-License-Identifier: Apache-2.0
// Messages of a meeting: what is said is what is heard, and other bytes are none.
#include "ranks/message.hpp"

#include <gtest/gtest.h>

#include "tessera/ranks/pack.hpp"

namespace tessera::ranks {
namespace {

TEST(Messages, ComeThroughInPieces) {
  Message const first{Kind::offer, {"1", "", std::string("a\0b", 3)}}, second{Kind::goodbye, {}};
  auto const bytes = encode(first) + encode(second);
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    Decoder decoder;
    std::vector<Message> heard;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.hear(std::string_view(bytes).substr(at, piece));
      while (auto message = decoder.next()) heard.push_back(*message);
    }
    ASSERT_EQ(heard, (std::vector{first, second})) << piece;
    EXPECT_FALSE(decoder.strange());
  }
}

bool is_strange(std::string const& bytes) {
  Decoder decoder;
  decoder.hear(bytes);
  EXPECT_FALSE(decoder.next());
  return decoder.strange();
}

TEST(Messages, OfSomebodyElseAreStrange) {
  EXPECT_TRUE(is_strange("GET / HTTP/1.1\r\n"));
  EXPECT_TRUE(is_strange("x"));
  EXPECT_FALSE(is_strange("tsr"));
  EXPECT_TRUE(is_strange(std::string("tsr1\x07\0\0\0\0", 9)));     // no such kind
  EXPECT_TRUE(is_strange(std::string("tsr1\x01\0\0\0\x7f", 9)));   // too long
  EXPECT_TRUE(is_strange(std::string("tsr1\x01\2\0\0\0ab", 11)));  // a word without its length
  EXPECT_TRUE(
      is_strange(std::string("tsr1\x01\5\0\0\0\2\0\0\0a", 14)));  // a word that is longer than the rest
}

TEST(Pack, StringsAndDiagnosticsComeBack) {
  std::vector<std::string> const words = {"", "a", std::string("\0\n", 2), std::string(70000, 'x')};
  EXPECT_EQ(unpack(pack(words)), words);
  EXPECT_EQ(unpack(""), std::vector<std::string>{});
  for (std::size_t cut = 1; cut < 9; ++cut) {
    auto const whole = pack(std::vector<std::string>{"abc", "d"});
    auto const part = unpack(std::string_view(whole).substr(0, whole.size() - cut));
    EXPECT_TRUE(!part || part->size() == 1) << cut;
  }
  Diagnostics two(2);
  two[0].code = "E0582", two[0].message = "a", two[1].code = "E0586", two[1].notes = {"x", "y"};
  EXPECT_EQ(unpack_diagnostics(pack(two)), two);
  EXPECT_EQ(unpack_diagnostics("no diagnostics"), Diagnostics{});
}

TEST(Messages, CarryAFailure) {
  Diagnostic one;
  one.code = "E0586";
  one.message = "rank 1 has ended";
  one.notes = {"a", "b"};
  one.suggestion = "start anew";
  EXPECT_EQ(diagnostic_of(failure_of(one)), one);
  EXPECT_EQ(diagnostic_of({Kind::failure, {}}).code, "E0586");
}

}  // namespace
}  // namespace tessera::ranks
