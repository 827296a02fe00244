// SPDX-License-Identifier: Apache-2.0
// What of measuring needs no GPU: what is done to samples, how many sets of operands there are, what a record
// says.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/bench/operand_sets.hpp"
#include "src/bench/record.hpp"
#include "src/bench/timer.hpp"

namespace tessera::bench {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

TEST(Level, TakesOutWhatARoundDidToAll) {
  // The second of three rounds was ten per cent slower for all, and the third sample of the last is its own.
  Timed a{{}, {100, 110, 100}}, b{{}, {200, 220, 200}}, c{{}, {50, 55, 60}};
  level({&a, &b, &c}, &Timed::hot);
  EXPECT_THAT(a.hot, Pointwise(DoubleNear(1e-9), {100.0, 100.0, 100.0}));
  EXPECT_THAT(b.hot, Pointwise(DoubleNear(1e-9), {200.0, 200.0, 200.0}));
  EXPECT_NEAR(c.hot[2] / c.hot[1], 60.0 / 50, 1e-9);
  level({}, &Timed::hot);
}

TEST(OperandSets, AreTogetherLargerThanTheCache) {
  EXPECT_EQ(sets_beyond_l2(100u << 20), 7);
  EXPECT_EQ(sets_beyond_l2(1u << 20), 12);
  EXPECT_EQ(sets_beyond_l2(1u << 20, 3, 700), 601);
  EXPECT_EQ(sets_beyond_l2(std::size_t{4} << 30), 3);
  EXPECT_EQ(sets_beyond_l2(0), 12);
}

TEST(OperandSets, HaveNothingBeforeTheyAreMade) {
  OperandSets const none;
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.at("x"), nullptr);
}

TEST(Record, HasALineForEachValueAndSixDigits) {
  EXPECT_EQ(values_as_json({{"post", 61.36961234, "us"}, {"a \"quoted\" name", 1e6, "byte/s"}}),
            "[\n"
            "  {\"name\": \"post\", \"value\": 61.3696, \"unit\": \"us\"},\n"
            "  {\"name\": \"a \\\"quoted\\\" name\", \"value\": 1000000, \"unit\": \"byte/s\"}\n"
            "]\n");
  EXPECT_EQ(values_as_json({{"none", NAN, "us"}}),
            "[\n  {\"name\": \"none\", \"value\": null, \"unit\": \"us\"}\n]\n");
  EXPECT_EQ(values_as_json({}), "[]\n");
}

TEST(Record, RoundsToWhatAMeasurementHas) {
  EXPECT_EQ(with_digits(123456.789, 3), 123000);
  EXPECT_EQ(with_decimals(123456.789, 1), 123456.8);
  EXPECT_EQ(with_decimals(-0.06, 1), -0.1);
}

TEST(Record, OfAWriteThatFailsIsAsItWas) {
  auto const folder = std::filesystem::temp_directory_path() / ("tessera-record-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  auto const path = (folder / "r.json").string();
  ASSERT_TRUE(write_file(path, "what was measured before"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto small = before;
  small.rlim_cur = 64;
  setrlimit(RLIMIT_FSIZE, &small);
  bool const written = write_file(path, std::string(4096, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(written);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "what was measured before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1)
      << "something is left beside it";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::bench
