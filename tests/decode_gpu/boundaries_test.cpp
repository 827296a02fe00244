// SPDX-License-Identifier: Apache-2.0
// A tile that never comes, of each stage, behind the first layer: who waits for it is named by operator,
// layer and tile, by words and by semaphores.
#include <gmock/gmock.h>

#include <cstdio>

#include "decode_gpu/own_stream.hpp"
#include "decode_gpu/small_decoder.hpp"

namespace tessera::decode {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Boundary {
  Stage missed;
  char const* waits;    ///< the stage behind
  char const* missing;  ///< the missed one
  char const* data;     ///< what is between
  int layer;            ///< of who waits, where the missed tile is of layer 1
};
constexpr Boundary k_boundaries[] = {{k_qkv, "attention", "qkv", "qkv of qkv", 1},
                                     {k_attention, "out", "attention", "attended of attention", 1},
                                     {k_out, "gate_up", "out", "y of out", 1},
                                     {k_gate_up, "down", "gate_up", "h of gate_up", 1},
                                     {k_down, "qkv", "down", "x of down", 2}};
constexpr int k_layers = 3;

/// Two sequences with a tile of attention each, and a block for each of these: both wait at every boundary,
/// so none can be ahead and wait for what comes behind.
struct Decoders {
  Model model = [] {
    auto one = reference::small_model(128, 1, 4);
    one.layers = k_layers;
    return one;
  }();
  reference::Weights weights{model, 6};
  WeightsOnDevice on_device{weights};
  OwnStream stream;

  static Options options(Exchange exchange) {
    Options o;
    o.batch = 2, o.capacity = 64;
    o.prompt_rows = 1;
    o.cut.blocks = 2, o.cut.splits = 1;
    o.cut.exchange = exchange;
    o.deadline_seconds = 0.02;
    return o;
  }
  Expected<Decoder> make(Options const& options) {
    auto made = Decoder::make(model, on_device.weights, options, nullptr);
    gpu::ok(cudaDeviceSynchronize());
    return made;
  }
};

void every_boundary(Exchange exchange) {
  Decoders all;
  auto const whole = all.make(Decoders::options(exchange));
  ASSERT_OK(whole);
  for (auto const& boundary : k_boundaries) {
    SCOPED_TRACE(boundary.missing);
    auto options = Decoders::options(exchange);
    options.missed_tile = MissedTile{static_cast<int>(boundary.missed), 1, 0};
    auto decoder = whole->another(options, nullptr);
    ASSERT_OK(decoder);
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(decoder->begin(all.stream, {{{1}, 0}, {{2}, 0}}));
    ASSERT_OK(decoder->step(all.stream));
    auto const stalled = decoder->finish();
    ASSERT_FALSE(stalled) << "nobody waited for it";
    EXPECT_EQ(stalled.error().front().code, "E0520");
    auto const said = to_text(stalled.error());
    std::printf("%s\n", said.c_str());
    EXPECT_THAT(said, ContainsRegex(std::string(boundary.waits) + "[_0-9]* tile \\([0-9]+\\) waits for"));
    if (exchange == Exchange::words)
      EXPECT_THAT(said, HasSubstr(std::string("; it reads ") + boundary.data));
    else
      EXPECT_THAT(said, ContainsRegex(std::string("waits for .*") + boundary.missing));
    EXPECT_THAT(said,
                HasSubstr("; layer " + std::to_string(boundary.layer) + " of " + std::to_string(k_layers)));
  }
  // Others with the same weights compute on.
  auto sound = whole->another(Decoders::options(exchange), nullptr);
  ASSERT_OK(sound);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(sound->prefill(all.stream, {{1, 2, 3}, {4, 5}}));
  ASSERT_OK(sound->decode(all.stream, 4));
  EXPECT_TRUE(sound->tokens());
}

TEST(DecodeBoundaries, OfWordsAreNamed) { every_boundary(Exchange::words); }
TEST(DecodeBoundaries, OfSemaphoresAreNamed) { every_boundary(Exchange::semaphore); }

TEST(DecodeBoundaries, ATileThatThereIsNotCannotBeMissed) {
  Decoders all;
  auto options = Decoders::options(Exchange::words);
  options.missed_tile = MissedTile{static_cast<int>(k_attention), 1, 2};
  auto const none = all.make(options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "E0564");
}

}  // namespace
}  // namespace tessera::decode
