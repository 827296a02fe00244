// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/reduction/config.hpp"

namespace tessera::reduction {
namespace {

constexpr int sms = 132;

TEST(Choose, TakesWhatCanRunForEverySizeAndElement) {
  for (auto const element : {Element::fp32, Element::fp64, Element::int32})
    for (int const gpu : {1, 2, 78, 114, sms})
      for (std::size_t count = 0; count <= (std::size_t{1} << 40); count = count * 3 / 2 + 1) {
        auto const config = choose(element, count, gpu);
        EXPECT_EQ(refusal(config, gpu), nullptr) << count << ": " << to_string(config);
      }
}

TEST(Choose, TakesOneBlockForTheSmallAndTheWholeGpuForTheLarge) {
  EXPECT_EQ(choose(Element::fp32, 1, sms).variant, Variant::one_block);
  EXPECT_EQ(choose(Element::fp32, 0, sms).variant, Variant::one_block);
  EXPECT_GE(choose(Element::fp32, std::size_t{1} << 28, sms).blocks, sms);
  EXPECT_GE(choose(Element::fp32, ~std::size_t{0}, sms).blocks, sms);
}

TEST(Choose, GoesByBytes) {
  for (std::size_t count = 1; count < (std::size_t{1} << 32); count *= 2)
    EXPECT_EQ(choose(Element::fp32, 2 * count, sms), choose(Element::fp64, count, sms)) << count;
}

TEST(Choose, OtherVariantsOfItCanRunAsWell) {
  for (std::size_t count = 1; count < (std::size_t{1} << 34); count *= 2)
    for (int v = 0; v < variants; ++v) {
      auto const chosen = choose(Element::fp32, count, sms);
      if (v == 0 && chosen.variant != Variant::one_block) continue;
      auto const config = with_variant(chosen, static_cast<Variant>(v), sms);
      EXPECT_EQ(refusal(config, 16 * sms), nullptr) << count << ": " << to_string(config);
    }
}

TEST(Refusal, SaysWhy) {
  Config const good{Variant::data_token, Loads::vector, 512, 4, 264, 1};
  EXPECT_EQ(refusal(good, 0), nullptr);
  auto const with = [&](auto change) {
    Config config = good;
    change(config);
    return std::string(refusal(config, 264));
  };
  EXPECT_EQ(with([](Config& c) { c.threads = 384; }), "no kernel is compiled for these threads and loads");
  EXPECT_EQ(with([](Config& c) { c.unroll = 0; }), "no kernel is compiled for these threads and loads");
  EXPECT_EQ(with([](Config& c) { c.blocks = 0; }), "a grid has at least one block");
  EXPECT_EQ(with([](Config& c) { c.blocks = 4097; }),
            "the workspace has no room for the sums of so many blocks");
  EXPECT_EQ(with([](Config& c) { c.variant = Variant::one_block; }), "one block is not several blocks");
  EXPECT_EQ(with([](Config& c) { c.threads = 32, c.unroll = 8; }),
            "blocks of 32 threads are compiled for one block only");
  EXPECT_EQ(with([](Config& c) { c.variant = Variant::clusters, c.cluster = 16; }),
            "a cluster has 1 to 8 blocks");
  EXPECT_EQ(with([](Config& c) { c.cluster = 2; }), "only clusters has clusters");
  EXPECT_EQ(with([](Config& c) { c.variant = Variant::clusters, c.cluster = 7; }),
            "the clusters do not divide the blocks");
  EXPECT_EQ(with([](Config& c) { c.variant = Variant::cooperative, c.blocks = 265; }),
            "the GPU does not hold all blocks at once");
}

TEST(Config, IsShownInWords) {
  EXPECT_EQ(to_string(Config{Variant::data_token, Loads::vector, 512, 4, 264, 1}),
            "data token, 264 blocks of 512, vector loads x4");
  EXPECT_EQ(to_string(Config{Variant::clusters, Loads::bulk, 256, 4, 132, 4}),
            "clusters, 132 blocks of 256 in clusters of 4, bulk copies x4");
}

}  // namespace
}  // namespace tessera::reduction
