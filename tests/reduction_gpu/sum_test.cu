// SPDX-License-Identifier: Apache-2.0
// Sums are right: every variant, type, size and alignment, in poisoned memory.
#include <gtest/gtest.h>

#include "data.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/reduction/sum.hpp"

namespace tessera::reduction {
namespace {

using gpu::DeviceBuffer;
using gpu::k_poison;
using gpu::ok;

template <class T>
constexpr Element element_of = sizeof(T) == 8           ? Element::fp64
                               : std::is_same_v<T, int> ? Element::int32
                                                        : Element::fp32;

std::size_t const sizes[] = {1,     2,     3,     4,      5,      31,     33,      127,     255,    256,
                             257,   1000,  1023,  1024,   1025,   4095,   4097,    8192,    10007,  16385,
                             65536, 65537, 99991, 262147, 524288, 999983, 1048576, 2097169, 5000011};
constexpr std::size_t most = 5000011 + 3;

Sum made() {
  auto one = Sum::make();
  if (!one) throw std::runtime_error(one.error().front().message);
  return std::move(*one);
}

template <class T>
class SumTest : public testing::Test {};
using Types = testing::Types<float, double, int>;
TYPED_TEST_SUITE(SumTest, Types);

TYPED_TEST(SumTest, IsRightForEverySizeAlignmentAndSeed) {
  using T = TypeParam;
  Sum sum = made();
  DeviceBuffer<T> device(most, k_poison), out(1, k_poison);
  for (unsigned const seed : {1u, 2u, 3u}) {
    auto const x = random_array<T>(most, seed);
    device.upload(x);
    for (std::size_t const size : sizes)
      for (std::size_t const start : {0, 1, 2, 3}) {
        if (seed != 1 && (size + start + seed) % 3 != 0) continue;
        out.fill(0xFF);
        ASSERT_TRUE(sum.launch(device.get() + start, size, out.get(), nullptr));
        ASSERT_TRUE(right(out.download().front(), Reference<T>(x.data() + start, size)))
            << size << " elements from " << start << ", seed " << seed;
      }
  }
  EXPECT_TRUE(sum.finish(nullptr));
}

// One Sum for all, so that every variant leaves its words as it, and the others, want to find them.
TYPED_TEST(SumTest, IsRightWithEveryVariantAndShape) {
  using T = TypeParam;
  Sum sum = made();
  auto const x = random_array<T>(most, 4);
  DeviceBuffer<T> device(most, k_poison), out(1, k_poison);
  device.upload(x);
  for (std::size_t const size : {std::size_t{5}, std::size_t{4097}, std::size_t{99991}, std::size_t{5000011}})
    for (std::size_t const start : {0, 3}) {
      Reference<T> const reference(x.data() + start, size);
      for (auto const& shape : shapes())
        for (int v = 0; v < variants; ++v) {
          auto const variant = static_cast<Variant>(v);
          if (variant == Variant::one_block ? size > 99991 : shape.threads < 128) continue;
          for (int const blocks : {1, 2, 67, sum.sms(), 3 * sum.sms()}) {
            if (variant == Variant::one_block && blocks > 1) continue;
            Config config{Variant::data_token, shape.loads, shape.threads, shape.unroll, blocks, 1};
            if (variant == Variant::one_block)
              config.variant = variant;
            else
              config = with_variant(config, variant, sum.sms());
            out.fill(0xFF);
            auto const done =
                sum.launch(element_of<T>, device.get() + start, size, out.get(), nullptr, config);
            ASSERT_TRUE(done) << done.error().front().message;
            ASSERT_TRUE(right(out.download().front(), reference))
                << size << " elements from " << start << ", " << to_string(config);
          }
        }
    }
  EXPECT_TRUE(sum.finish(nullptr));
}

TYPED_TEST(SumTest, OfNothingIsZero) {
  DeviceBuffer<TypeParam> out(1, k_poison);
  ASSERT_TRUE(sum(static_cast<TypeParam const*>(nullptr), 0, out.get(), nullptr));
  EXPECT_EQ(out.download().front(), TypeParam(0));
}

TEST(Sum, TouchesNothingBesideItsResult) {
  Sum sum = made();
  DeviceBuffer<float> x(most, 0), out(3, 0x7B);
  ASSERT_TRUE(sum.launch(x.get(), most, out.get() + 1, nullptr));
  auto const got = out.download();
  EXPECT_EQ(got[1], 0.0f);
  EXPECT_EQ(got[0], got[2]);
  EXPECT_NE(got[0], 0.0f);
}

TEST(Sum, KeepsInfinitiesAndNotANumber) {
  Sum sum = made();
  auto x = random_array<float>(most, 5);
  x[most - 1] = INFINITY;
  DeviceBuffer<float> device(most, k_poison), out(1, k_poison);
  device.upload(x);
  ASSERT_TRUE(sum.launch(device.get(), most, out.get(), nullptr));
  EXPECT_EQ(out.download().front(), INFINITY);
  x[0] = -INFINITY;
  device.upload(x);
  ASSERT_TRUE(sum.launch(device.get(), most, out.get(), nullptr));
  EXPECT_TRUE(std::isnan(out.download().front()));
}

TEST(Sum, RefusesWhatItCannotDo) {
  Sum sum = made();
  DeviceBuffer<float> x(64, k_poison), out(1, k_poison);
  auto const message = [](Expected<void> const& refused) {
    return refused ? "accepted" : refused.error().front().code + ": " + refused.error().front().message;
  };
  auto* const between = reinterpret_cast<float*>(reinterpret_cast<char*>(x.get()) + 2);
  EXPECT_EQ(message(sum.launch(between, 4, out.get(), nullptr)), "E0550: x is not a multiple of 4 bytes");
  EXPECT_EQ(message(sum.launch(x.get(), 4, between, nullptr)), "E0550: out is not a multiple of 4 bytes");
  EXPECT_EQ(message(sum.launch(static_cast<float*>(nullptr), 4, out.get(), nullptr)), "E0550: x is null");
  EXPECT_EQ(message(sum.launch(x.get(), 4, nullptr, nullptr)), "E0550: out is null");
  EXPECT_EQ(message(sum.launch(x.get(), static_cast<std::size_t>(-1), out.get(), nullptr)),
            "E0550: 18446744073709551615 elements are more than there are addresses");
  Config const many{Variant::grid_barrier, Loads::vector, 1024, 8, 4096, 1};
  EXPECT_EQ(message(sum.launch(Element::fp32, x.get(), 4, out.get(), nullptr, many)),
            "E0551: grid barrier, 4096 blocks of 1024, vector loads x8: the GPU does not hold all blocks at "
            "once");
}

}  // namespace
}  // namespace tessera::reduction
