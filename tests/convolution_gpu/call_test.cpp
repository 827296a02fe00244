// SPDX-License-Identifier: Apache-2.0
// What ConvChain::make() refuses before it asks for a GPU (E0567).
#include <gmock/gmock.h>

#include "kernels/convolution/conv_launches.hpp"
#include "support/assert_ok.hpp"

namespace tessera::convolution {
namespace {

/// Addresses that nobody follows.
void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }
ConvBuffers buffers() {
  return {address(0x1000),
          {{address(0x2000), address(0x3000), nullptr}, {address(0x4000), address(0x5000), address(0x6000)}}};
}

void expect_refused(LayerChain const& chain, ConvBuffers const& at, std::string const& words) {
  auto const made = ConvChain::make(chain, at);
  ASSERT_FALSE(made) << words;
  EXPECT_EQ(made.error().front().code, "E0567");
  EXPECT_THAT(to_text(made.error()), testing::HasSubstr(words));
}

TEST(ConvolutionCall, Buffers) {
  auto const chain = same_size(1, 14, 256, 2);
  auto const refused = [&](auto const& change, std::string const& words) {
    auto at = buffers();
    change(at);
    expect_refused(chain, at, words);
  };
  std::string const of_layer = " is missing, too many or not 16-byte aligned";
  refused([](auto& at) { at.input = nullptr; }, "the input of a chain of convolutions is missing");
  refused([](auto& at) { at.input = address(0x1008); }, "not 16-byte aligned");
  refused([](auto& at) { at.layers.pop_back(); }, "buffers of 1 layers for 2 convolutions");
  refused([](auto& at) { at.layers[0].filter = nullptr; }, "a buffer of layer 0" + of_layer);
  refused([](auto& at) { at.layers[1].bias = nullptr; }, "a buffer of layer 1" + of_layer);
  refused([](auto& at) { at.layers[1].output = nullptr; }, "a buffer of layer 1" + of_layer);
  refused([](auto& at) { at.layers[0].output = address(0x7004); }, "a buffer of layer 0" + of_layer);
  refused([](auto& at) { at.layers[1].residual = address(0x8000); }, "a buffer of layer 1" + of_layer);
  auto given = chain;
  given.layers[1].residual = k_given_residual;
  expect_refused(given, buffers(), "a buffer of layer 1" + of_layer);
  auto without = chain;
  without.layers[0].bias = false;
  expect_refused(without, buffers(), "a buffer of layer 0" + of_layer);
}

TEST(ConvolutionCall, LentMemoryHasTheResultsBetween) {
  EXPECT_EQ(scratch_bytes(same_size(1, 14, 256, 1)), 0u);
  EXPECT_EQ(scratch_bytes(same_size(1, 14, 256, 3)), 2u * 2 * 14 * 14 * 256);
  // Each begins at a multiple of 256 bytes: 3 x 3 x 64 numbers are 1152.
  EXPECT_EQ(scratch_bytes(same_size(1, 3, 64, 3)), 2u * 1280);
}

TEST(ConvolutionCall, LentMemoryThatIsNotThere) {
  auto const launches = ConvLaunches::make(same_size(1, 14, 256, 2), 132);
  ASSERT_OK(launches);
  for (void* const lent : {address(0), address(0x7080)}) {
    auto const refused = launches->run(buffers(), lent, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_THAT(to_text(refused.error()),
                testing::HasSubstr("E0567: the memory that a chain of convolutions is lent"));
  }
  auto at = buffers();
  at.layers[1].output = nullptr;
  EXPECT_FALSE(launches->run(at, address(0x8000), nullptr));
  EXPECT_FALSE(ConvLaunches::make(same_size(1, 14, 96, 2), 132));
}

TEST(ConvolutionCall, Chains) {
  expect_refused(same_size(0, 14, 256, 2), buffers(), "convolutions of 0 images");
  expect_refused(same_size(1, 14, 96, 2), buffers(), "convolutions of 96 channels");
}

}  // namespace
}  // namespace tessera::convolution
