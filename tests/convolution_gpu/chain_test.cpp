// SPDX-License-Identifier: Apache-2.0
// Chains of convolutions in persistent launches: the right numbers for every size, batch, filter and way to
// cut them.
#include "convolution_gpu/chain_problem.hpp"

namespace tessera::convolution {
namespace {

constexpr int k_batches[] = {1, 2, 3, 4, 5, 8, 13, 16, 32, 33};

void every_batch(int edge, int channels) {
  for (int const images : k_batches) {
    expect_right(same_size(images, edge, channels, 2));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Convolution, The56x56x64) { every_batch(56, 64); }
TEST(Convolution, The28x28x128) { every_batch(28, 128); }
TEST(Convolution, The14x14x256) { every_batch(14, 256); }
TEST(Convolution, The7x7x512) { every_batch(7, 512); }
TEST(Convolution, TailsOfOddSizes) {
  for (int const edge : {1, 2, 3, 5, 9, 13, 29, 57})
    for (int const images : {1, 3}) {
      expect_right(same_size(images, edge, 64, 2));
      expect_right(same_size(images, edge, 192, 3));
      if (HasFatalFailure()) return;
    }
  LayerChain chain = same_size(2, 11, 128, 2);
  chain.width = 23;
  expect_right(chain);
}
TEST(Convolution, Bf16) {
  for (int const images : {1, 8}) {
    expect_right(same_size(images, 14, 256, 2, ElementType::bf16));
    expect_right(same_size(images, 7, 512, 2, ElementType::bf16));
    if (HasFatalFailure()) return;
  }
}
TEST(Convolution, EveryNumberOfSplits) {
  for (int const images : {1, 3})
    for (int const splits : {1, 2, 4, 8})
      for (auto const& [edge, channels] : {std::pair{7, 512}, {14, 256}, {28, 128}}) {
        if (channels / k_chunk % splits != 0) continue;
        auto options = persistent();
        options.splits = splits;
        expect_right(same_size(images, edge, channels, 3), options);
        if (HasFatalFailure()) return;
      }
}
/// All ways in which warps share a tile, and boxes of all kinds, on both sides of a boundary.
TEST(Convolution, EveryWayToCut) {
  unsigned seed = 7;
  for (auto const& chain : {same_size(2, 14, 256, 3), same_size(3, 7, 256, 3), same_size(1, 28, 128, 3)})
    for (int const splits : {1, 2})
      for (int round = 0; round < 25; ++round) {
        auto const sizes = sizes_of(chain);
        auto const cuts = cuts_of(sizes[0], chain.layers[0], chain.images, splits);
        auto options = persistent();
        while (options.cuts.size() < chain.layers.size()) {
          seed = seed * 1664525 + 1013904223;
          options.cuts.push_back(cuts[seed / 65536 % cuts.size()]);
        }
        // Slots of all layers are alike: some do not fit together.
        if (!cut_chain(chain, {}, options)) continue;
        expect_right(chain, options);
        if (HasFatalFailure()) return;
      }
}
TEST(Convolution, EveryFilterStrideAndPadding) {
  for (int const images : {1, 3})
    for (int const kernel : {1, 3, 5})
      for (int const stride : {1, 2})
        for (int padding = 0; padding <= kernel / 2; ++padding)
          for (int const channels : {64, 256}) {
            expect_right(
                {images, 15, 13, 128, {layer(channels, kernel, stride, padding), layer(128, 3, 1, 1)}});
            if (HasFatalFailure()) return;
          }
}
TEST(Convolution, WithoutBiasAndRelu) {
  auto chain = same_size(2, 14, 128, 3);
  chain.layers[0].bias = chain.layers[1].relu = false;
  chain.layers[2].bias = chain.layers[2].relu = false;
  expect_right(chain);
}
TEST(Convolution, Residuals) {
  for (int const images : {1, 2, 8}) {
    expect_right(bottleneck(images));
    for (auto const& [edge, channels] : {std::pair{56, 64}, {14, 256}, {7, 512}}) {
      auto chain = same_size(images, edge, channels, 6);
      for (int const l : {1, 3, 5}) chain.layers[static_cast<std::size_t>(l)].residual = l - 1;
      expect_right(chain);
    }
    if (HasFatalFailure()) return;
  }
}
/// A network's worth of layers in one launch.
TEST(Convolution, ALongChain) {
  for (int const images : {1, 4}) expect_right(same_size(images, 14, 256, 32));
}
/// Several launches one behind the other, with splits of their own, residuals in each.
TEST(Convolution, ANetworkInSeveralLaunches) {
  LayerChain network{1, 56, 56, 64, {}};
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < 4; ++i) {
      auto one = layer(64 << stage, 3, stage > 0 && i == 0 ? 2 : 1, 1);
      if (i == 3) one.residual = static_cast<int>(network.layers.size()) - 1;
      network.layers.push_back(one);
    }
  ASSERT_GT(cut_launches(network, {})->size(), 1u);
  expect_right(network);
}
/// Rows of activations between layers may be the chain's own memory.
TEST(Convolution, OwnMemoryBetweenLayers) {
  auto const chain = same_size(2, 14, 256, 3);
  for (auto const& options : {persistent(), ConvOptions()}) {
    Problem const problem(chain, 3);
    auto given = ConvChain::make(chain, problem.buffers(), options);
    ASSERT_OK(given);
    ASSERT_OK(given->run(nullptr));
    ASSERT_OK(given->finish());
    auto const expected = problem.result();
    auto buffers = problem.buffers();
    buffers.layers[0].output = buffers.layers[1].output = nullptr;
    auto own = ConvChain::make(chain, buffers, options);
    ASSERT_OK(own);
    problem.start_again();
    ASSERT_OK(own->run(nullptr));
    ASSERT_OK(own->finish());
    EXPECT_EQ(problem.result(), expected);
  }
}

/// Launches in a row, and graphs of them: the same bits as one by one.
TEST(Convolution, ReplaysHaveTheSameBits) {
  for (auto const& base : {same_size(1, 14, 256, 4), same_size(1, 7, 512, 2), same_size(8, 28, 128, 2)})
    for (bool const starts_early : {false, true}) {
      Problem const problem(base, 2);
      auto options = persistent();
      options.starts_early = starts_early;
      auto chain = ConvChain::make(base, problem.buffers(), options);
      ASSERT_OK(chain);
      ASSERT_OK(chain->run(nullptr));
      ASSERT_OK(chain->finish());
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
      ASSERT_OK(chain->finish());
      ok(cudaGraphExecDestroy(executable));
      ok(cudaGraphDestroy(graph));
      ok(cudaStreamDestroy(stream));
    }
}

}  // namespace
}  // namespace tessera::convolution
