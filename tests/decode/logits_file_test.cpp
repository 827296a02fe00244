// SPDX-License-Identifier: Apache-2.0
// Files of logits: the bytes before the numbers, and what is too large.
#include "kernels/decode/logits_file.hpp"

#include <gmock/gmock.h>

namespace tessera::decode {
namespace {

TEST(LogitsFile, HeadersAreNumpys) {
  for (LogitsShape const shape : {LogitsShape{1, 1, 64}, {128, 24, 128256}, {131072, 64, 1048576}}) {
    auto const header = logits_header(shape);
    EXPECT_EQ(header.size() % 64, 0U);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    auto const length = static_cast<unsigned char>(header[8]) + 256 * static_cast<unsigned char>(header[9]);
    EXPECT_EQ(header.size(), 10U + static_cast<std::size_t>(length));
    EXPECT_EQ(header.back(), '\n');
  }
  auto const text = logits_header({128, 24, 128256}).substr(10);
  EXPECT_THAT(
      text, testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (128, 24, 128256), }   "));
}

TEST(LogitsFile, TooManyAreRefusedWithHowManyFit) {
  EXPECT_TRUE(check_logits({128, 24, 128256}));
  EXPECT_TRUE(check_logits({65, 64, 128256}));
  auto const large = check_logits({66, 64, 128256});
  ASSERT_FALSE(large);
  EXPECT_EQ(
      to_text(large.error()),
      "error E0566: logits of 64 sequences, 66 steps and 128256 tokens are 2.2 GB; a file has 2.1 at most\n"
      "   hint: --new-tokens 65 fits, or fewer prompts at once");
  EXPECT_EQ(check_logits({1, 1 << 12, 1 << 20}).error().front().suggestion, "give fewer prompts at once");
  // Nothing overflows.
  EXPECT_FALSE(check_logits({1 << 17, 64, 1 << 20}));
}

}  // namespace
}  // namespace tessera::decode
