// SPDX-License-Identifier: Apache-2.0
// Why a candidate is not the plan: what is worse about it, and never only what is better.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "plan/outcome.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome with_tiles(char const* kernels, double us, double filled, std::int64_t waves, double mb) {
  Outcome result;
  result.kernels = kernels, result.us = us, result.filled = filled, result.stream_waves = waves;
  result.filled_waves = fmt::format("{:.1f}", filled);
  result.loaded_mb = mb;
  return result;
}

TEST(Reasons, SayWhatIsWorse) {
  auto const winner = with_tiles("128x128", 100, 9.9, 11, 400);
  EXPECT_EQ(
      reason(with_tiles("128x64", 105, 19.5, 21, 500), winner),
      "+5.0 us: 19.5 waves filled and 21 in stream order instead of 9.9 and 11; 500 MB loaded through L2, "
      "not 400");
  EXPECT_EQ(reason(with_tiles("64x256", 105, 9.9, 11, 500), winner),
            "+5.0 us: 500 MB loaded through L2 instead of 400");
}
TEST(Reasons, FewerWavesOrBytesAreNoReason) {
  auto const winner = with_tiles("128x128", 100, 9.9, 11, 400);
  EXPECT_EQ(reason(with_tiles("128x256", 105, 4.2, 5, 300), winner),
            "+5.0 us: a wave of 128x256 takes 25 us instead of 10.1, and 4.2 are filled instead of 9.9");
  EXPECT_EQ(reason(with_tiles("256x128", 105, 9.9, 11, 390), winner),
            "+5.0 us: a wave of 256x128 takes 10.6 us instead of 10.1");
  // More of one and less of the other: what is more.
  EXPECT_THAT(reason(with_tiles("64x256", 105, 10.2, 11, 300), winner), Not(HasSubstr("MB")));
}

}  // namespace
}  // namespace tessera
