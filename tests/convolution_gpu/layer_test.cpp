// SPDX-License-Identifier: Apache-2.0
// Layers that are launches of their own: the right numbers for every size, batch, filter and way to cut them.
#include "convolution_gpu/chain_problem.hpp"
#include "kernels/convolution/conv_launches.hpp"
#include "kernels/convolution/layer_cut.hpp"

namespace tessera::convolution {
namespace {

constexpr int k_sms = 132;

ConvOptions by_layer(bool early = false) {
  ConvOptions options;
  options.by_layer = true;
  options.starts_early = early;
  return options;
}

void every_batch(int edge, int channels) {
  for (int const images : {1, 2, 3, 4, 5, 8, 13, 16, 32, 33}) {
    expect_right(same_size(images, edge, channels, 2), by_layer());
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ConvolutionLayer, The56x56x64) { every_batch(56, 64); }
TEST(ConvolutionLayer, The28x28x128) { every_batch(28, 128); }
TEST(ConvolutionLayer, The14x14x256) { every_batch(14, 256); }
TEST(ConvolutionLayer, The7x7x512) { every_batch(7, 512); }
TEST(ConvolutionLayer, TailsOfOddSizes) {
  for (int const edge : {1, 2, 3, 5, 9, 13, 29, 57})
    for (int const images : {1, 3}) {
      expect_right(same_size(images, edge, 64, 2), by_layer());
      expect_right(same_size(images, edge, 192, 3), by_layer());
      if (HasFatalFailure()) return;
    }
}
TEST(ConvolutionLayer, Bf16) {
  for (int const images : {1, 8}) {
    expect_right(same_size(images, 14, 256, 2, ElementType::bf16), by_layer());
    expect_right(same_size(images, 7, 512, 2, ElementType::bf16), by_layer());
    if (HasFatalFailure()) return;
  }
}
/// All ways in which warps and blocks share a tile, and boxes of all kinds.
TEST(ConvolutionLayer, EveryWayToCut) {
  unsigned seed = 7;
  for (auto const& chain : {same_size(2, 14, 256, 2), same_size(3, 7, 512, 2), same_size(1, 28, 128, 2)}) {
    auto const sizes = sizes_of(chain);
    auto const all = layer_cuts(sizes[0], chain.layers[0], chain.images, k_sms, 100000);
    ASSERT_GT(all.size(), 50u);
    for (int round = 0; round < 60; ++round) {
      auto options = by_layer();
      while (options.cuts.size() < chain.layers.size()) {
        seed = seed * 1664525 + 1013904223;
        options.cuts.push_back(all[seed / 65536 % all.size()]);
      }
      expect_right(chain, options);
      if (HasFatalFailure()) return;
    }
  }
}
TEST(ConvolutionLayer, EveryFilterStrideAndPadding) {
  for (int const images : {1, 3})
    for (int const kernel : {1, 3, 5})
      for (int const stride : {1, 2})
        for (int padding = 0; padding <= kernel / 2; ++padding)
          for (int const channels : {64, 256}) {
            expect_right(
                {images, 15, 13, 128, {layer(channels, kernel, stride, padding), layer(128, 3, 1, 1)}},
                by_layer());
            if (HasFatalFailure()) return;
          }
}
TEST(ConvolutionLayer, WithoutBiasAndRelu) {
  auto chain = same_size(2, 14, 128, 3);
  chain.layers[0].bias = chain.layers[1].relu = false;
  chain.layers[2].bias = chain.layers[2].relu = false;
  expect_right(chain, by_layer());
}
/// Bound when it is called, with memory that is lent: as a chain that is bound once.
TEST(ConvolutionLayer, MemoryOfTheCallerGivesTheSameBits) {
  int sms = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  for (auto chain : {same_size(1, 14, 256, 3), same_size(5, 7, 512, 2, ElementType::bf16)}) {
    if (chain.layers.size() > 2) chain.layers[2].residual = 1;
    SCOPED_TRACE(to_string(chain));
    Problem const problem(chain, 3);
    auto once = ConvChain::make(chain, problem.buffers(), by_layer());
    ASSERT_OK(once);
    ASSERT_OK(once->run(nullptr));
    ASSERT_OK(once->finish());
    auto const wanted = problem.result();
    auto const launches = ConvLaunches::make(chain, sms);
    ASSERT_OK(launches);
    auto buffers = problem.buffers();
    for (std::size_t l = 0; l + 1 < buffers.layers.size(); ++l) buffers.layers[l].output = nullptr;
    Numbers const lent(scratch_bytes(chain) / 2);
    for (int call = 0; call < 3; ++call) {
      problem.start_again();
      ASSERT_OK(launches->run(buffers, lent.get(), nullptr));
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      ASSERT_EQ(problem.result(), wanted);
      ASSERT_TRUE(problem.kept_its_bounds());
    }
  }
}
TEST(ConvolutionLayer, Residuals) {
  for (int const images : {1, 2, 8}) {
    expect_right(bottleneck(images), by_layer());
    for (auto const& [edge, channels] : {std::pair{56, 64}, {14, 256}, {7, 512}}) {
      auto chain = same_size(images, edge, channels, 6);
      for (int const l : {1, 3, 5}) chain.layers[static_cast<std::size_t>(l)].residual = l - 1;
      expect_right(chain, by_layer());
    }
    if (HasFatalFailure()) return;
  }
}
/// The layers of ResNet-38 that change the size, each with one behind it.
TEST(ConvolutionLayer, SizesThatChangeWithEveryBatch) {
  for (auto const& [edge, channels] : {std::pair{56, 64}, {28, 128}, {14, 256}})
    for (int const images : {1, 2, 3, 4, 5, 8, 13, 16, 32, 33}) {
      expect_right(
          {images, edge, edge, channels, {layer(2 * channels, 3, 2, 1), layer(2 * channels, 3, 1, 1)}},
          by_layer());
      if (HasFatalFailure()) return;
    }
}
bool is_nan(unsigned short bits) { return (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0; }
/// A NaN of one channel of one pixel comes out wherever a filter reaches it, and nowhere else.
TEST(ConvolutionLayer, ANanReachesWhatItsFiltersReach) {
  auto persistent_too = {by_layer(), by_layer(true), persistent()};
  for (auto const& options : persistent_too)
    for (auto const& [edge, channels] : {std::pair{28, 128}, {7, 512}}) {
      auto const chain = same_size(2, edge, channels, 2);
      SCOPED_TRACE(to_string(chain));
      Problem const problem(chain, 4);
      int const row = edge / 2, column = edge - 1;  // of the second image, at its edge
      problem.put(static_cast<std::size_t>(((edge + row) * edge + column) * channels + 5), 0x7e00);
      auto made = ConvChain::make(chain, problem.buffers(), options);
      ASSERT_OK(made);
      ASSERT_OK(made->run(nullptr));
      ASSERT_OK(made->finish());
      for (int layer = 1; layer <= 2; ++layer) {
        auto const found = problem.activation(static_cast<std::size_t>(layer));
        for (int pixel = 0; pixel < 2 * edge * edge; ++pixel) {
          bool const reached = pixel >= edge * edge && std::abs(pixel / edge % edge - row) <= layer &&
                               std::abs(pixel % edge - column) <= layer;
          for (int channel = 0; channel < channels; ++channel)
            ASSERT_EQ(is_nan(found[static_cast<std::size_t>(pixel * channels + channel)]), reached)
                << "layer " << layer << ", pixel " << pixel << ", channel " << channel;
        }
      }
    }
}
/// Launches that start early, in graphs that are replayed from poisoned memory: the same bits as one by one.
TEST(ConvolutionLayer, ReplaysHaveTheSameBits) {
  for (auto const& base : {same_size(1, 14, 256, 6), same_size(1, 7, 512, 4), same_size(8, 28, 128, 4)})
    for (bool const starts_early : {false, true}) {
      Problem const problem(base, 2);
      auto chain = ConvChain::make(base, problem.buffers(), by_layer(starts_early));
      ASSERT_OK(chain);
      ASSERT_OK(chain->run(nullptr));
      ok(cudaDeviceSynchronize());
      auto const expected = problem.result();
      cudaStream_t stream;
      ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < 5; ++i) ASSERT_OK(chain->run(stream));
      ok(cudaStreamEndCapture(stream, &graph));
      ok(cudaGraphInstantiate(&executable, graph, 0));
      for (int round = 0; round < 60; ++round) {
        problem.start_again();
        ok(cudaGraphLaunch(executable, stream));
        ok(cudaStreamSynchronize(stream));
        ASSERT_EQ(problem.result(), expected) << "replay " << round;
      }
      ok(cudaGraphExecDestroy(executable));
      ok(cudaGraphDestroy(graph));
      ok(cudaStreamDestroy(stream));
    }
}
/// Stamps are in order, of every tile, also on a stream that does not block; finish() waits.
TEST(ConvolutionLayer, StampsOfEveryTile) {
  auto const base = same_size(4, 14, 256, 3);
  Problem const problem(base, 2);
  auto options = by_layer();
  options.keep_times = true;
  auto chain = ConvChain::make(base, problem.buffers(), options);
  ASSERT_OK(chain);
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned long long before = 0;
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 20; ++i) ASSERT_OK(chain->run(stream));
    ASSERT_OK(chain->finish());
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
    auto last = before;
    for (std::size_t l = 0; l < base.layers.size(); ++l) {
      auto const times = chain->times(l);
      ASSERT_EQ(times.size(), static_cast<std::size_t>(chain->launches()[l].cut.stages[0].tiles()));
      for (auto const& tile : times) {
        EXPECT_GT(tile.begun, before);
        EXPECT_LE(tile.begun, tile.fed);
        EXPECT_LE(tile.fed, tile.read);
        EXPECT_LE(tile.read, tile.stored);
        EXPECT_LT(tile.stored - tile.begun, 1'000'000u);
        last = std::max(last, tile.stored);
      }
    }
    before = last;
  }
  ok(cudaStreamDestroy(stream));
}
/// 32 layers of four sizes, strides and residuals among them.
TEST(ConvolutionLayer, ANetwork) {
  for (int const images : {1, 4}) {
    LayerChain network{images, 56, 56, 64, {}};
    for (int stage = 0; stage < 4; ++stage)
      for (int i = 0; i < 8; ++i) {
        auto one = layer(64 << stage, 3, stage > 0 && i == 0 ? 2 : 1, 1);
        if (i % 2 == 1 && i > 1) one.residual = static_cast<int>(network.layers.size()) - 1;
        network.layers.push_back(one);
      }
    expect_right(network, by_layer());
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::convolution
