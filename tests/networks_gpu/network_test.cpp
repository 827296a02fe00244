// SPDX-License-Identifier: Apache-2.0
// Networks on the GPU: every layer against plain arithmetic on what it has read, by cuDNN and in chains.
#include <gtest/gtest.h>

#include <random>

#include "kernels/networks/conv_network.hpp"
#include "networks/longest_chains.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/stream.hpp"
#include "support/assert_ok.hpp"

namespace tessera::networks {
namespace {

using gpu::ok;

std::vector<std::uint16_t> random_images(Network const& network, int images, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::uint16_t> result(static_cast<std::size_t>(images * network.image.elements()));
  for (auto& one : result) one = bits_of(normal(random), network.type);
  return result;
}

class OnGpu {
 public:
  OnGpu(Network of, int images, NetworkOptions const& options)
      : network(std::move(of)), count(images), weights(random_weights(network, 1)) {
    auto made = ConvNetwork::make(network, weights, images, options, stream.get());
    if (!made) {
      ADD_FAILURE() << to_text(made.error());
      return;
    }
    result = std::move(*made);
    put(1);
  }

  void put(unsigned seed) {
    auto const bits = random_images(network, count, seed);
    ok(cudaMemcpyAsync(result->input(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice, stream.get()));
    ok(cudaStreamSynchronize(stream.get()));
  }
  std::vector<std::uint16_t> last() const {
    auto bits = result->activation(static_cast<int>(network.layers.size()), count - 1);
    return bits ? *bits : std::vector<std::uint16_t>();
  }

  Network network;
  int count;
  NetworkWeights weights;
  gpu::Stream stream;
  std::optional<ConvNetwork> result;
};

void expect_right(Network const& network, int images, NetworkOptions const& options) {
  SCOPED_TRACE(network.name + " for " + std::to_string(images));
  OnGpu on(network, images, options);
  ASSERT_TRUE(on.result);
  SCOPED_TRACE(to_string(on.result->steps()));
  for (unsigned run = 1; run <= 2; ++run) {
    on.put(run);
    ASSERT_OK(on.result->run(on.stream.get()));
    ASSERT_OK(on.result->finish());
    auto const errors = layer_errors(*on.result, on.network, on.weights, images);
    ASSERT_OK(errors);
    ASSERT_EQ(errors->size(), network.layers.size());
    for (auto const& one : *errors)
      EXPECT_LE(one.error, allowed_error(network.type)) << network.layers[one.layer].name;
  }
}

NetworkOptions with(std::vector<Step> steps) {
  NetworkOptions options;
  options.steps = std::move(steps);
  return options;
}

/// Sizes whose last images have few pixels, and odd ones.
std::vector<Network> small_networks() {
  return {with_edge(resnet_38(), 14), with_edge(vgg_19(), 20), with_edge(resnet_50(), 70)};
}

TEST(Networks, ByCudnn) {
  for (auto const& network : small_networks())
    for (int const images : {1, 3}) expect_right(network, images, with(steps_with(network, {})));
}
TEST(Networks, InChains) {
  for (auto const& network : small_networks())
    for (int const images : {1, 3}) expect_right(network, images, with(longest_chains(network, images)));
}
/// Each convolution that can be one is a launch of its own, which starts while the step before still runs.
TEST(Networks, InLaunchesOfTheirOwn) {
  for (auto const& network : small_networks())
    for (int const images : {1, 3})
      expect_right(network, images, with(steps_with(network, possible_launches(network, images))));
}
TEST(Networks, Bf16) {
  auto network = with_edge(resnet_50(), 64);
  network.type = ElementType::bf16;
  for (auto const& steps : {steps_with(network, {}), longest_chains(network, 2),
                            steps_with(network, possible_launches(network, 2))})
    expect_right(network, 2, with(steps));
}
TEST(Networks, AsMeasured) {
  for (auto const& network : small_networks()) {
    NetworkOptions options;
    options.tune = true, options.tune_seconds = 0.05, options.tune_plans = 2;
    expect_right(network, 2, options);
  }
}
TEST(Networks, WholeSizes) {
  for (auto const& network : {resnet_38(), resnet_50()})
    for (auto const& steps : {longest_chains(network, 1), steps_with(network, possible_launches(network, 1))})
      expect_right(network, 1, with(steps));
  auto const vgg = vgg_19();
  expect_right(vgg, 1, with(steps_with(vgg, {})));
  expect_right(vgg, 1, with(steps_with(vgg, possible_launches(vgg, 1))));
}
/// Runs of ResNet-50 one by one and graphs of them: the same bits.
void replays_have_the_same_bits(std::vector<Step> const& steps) {
  OnGpu on(resnet_50(), 2, with(steps));
  ASSERT_TRUE(on.result);
  ASSERT_OK(on.result->run(on.stream.get()));
  ASSERT_OK(on.result->finish());
  auto const expected = on.last();
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ok(cudaStreamBeginCapture(on.stream.get(), cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 2; ++i) ASSERT_OK(on.result->run(on.stream.get()));
  ok(cudaStreamEndCapture(on.stream.get(), &graph));
  ok(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 200; ++i) ok(cudaGraphLaunch(executable, on.stream.get()));
  ok(cudaStreamSynchronize(on.stream.get()));
  ASSERT_OK(on.result->finish());
  EXPECT_EQ(on.last(), expected);
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
}
TEST(Networks, ReplaysHaveTheSameBits) {
  replays_have_the_same_bits(longest_chains(resnet_50(), 2));
  replays_have_the_same_bits(steps_with(resnet_50(), possible_launches(resnet_50(), 2)));
}
/// The same network in memory of its own, in other steps.
TEST(Networks, Again) {
  auto const network = with_edge(resnet_50(), 64);
  OnGpu first(network, 2, with(steps_with(network, {})));
  ASSERT_TRUE(first.result);
  NetworkOptions options;
  options.keep_times = true;
  auto again = first.result->again(first.weights, longest_chains(network, 2), options, first.stream.get());
  ASSERT_OK(again);
  EXPECT_NE(again->input(), first.result->input());
  auto const bits = random_images(network, 2, 1);
  ok(cudaMemcpy(again->input(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
  ASSERT_OK(again->run(first.stream.get()));
  ASSERT_OK(again->finish());
  auto const errors = layer_errors(*again, network, first.weights, 2);
  ASSERT_OK(errors);
  for (auto const& one : *errors)
    EXPECT_LE(one.error, allowed_error(network.type)) << network.layers[one.layer].name;
  auto const times = again->step_times(first.stream.get());
  ASSERT_OK(times);
  ASSERT_EQ(times->size(), again->steps().size());
  for (auto const& one : *times) {
    EXPECT_GT(one.us, 0);
    EXPECT_LT(one.us, 1e4);
    EXPECT_EQ(one.layers_us.size(), one.step.chain ? one.step.end - one.step.first : 0);
  }
}
/// What comes out is for cuDNN's ReLU to say, behind the stem.
TEST(Networks, NansEnd) {
  auto const network = with_edge(resnet_50(), 64);
  OnGpu on(network, 1, with(longest_chains(network, 1)));
  ASSERT_TRUE(on.result);
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(network.image.elements()), 0x7e00);
  ok(cudaMemcpy(on.result->input(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
  ASSERT_OK(on.result->run(on.stream.get()));
  ASSERT_OK(on.result->finish());
}

}  // namespace
}  // namespace tessera::networks
