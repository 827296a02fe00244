// SPDX-License-Identifier: Apache-2.0
// Messages of a meeting: what is said is what is heard, and other bytes are none.
#include "ranks/message.hpp"

#include <gtest/gtest.h>

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
