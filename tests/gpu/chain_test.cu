// SPDX-License-Identifier: Apache-2.0
// The generated headers that the golden tests hold, on the GPU: every mechanism, bit for bit against the
// reference, thousands of launches and graph replays on one memory that nobody resets.
#include <gtest/gtest.h>
#include <algorithm>

#include <future>
#include <map>

#include "chain.cuh"
#include "golden/attention.cuh"
#include "golden/convolution.cuh"
#include "golden/fused.cuh"
#include "golden/fused_in_order.cuh"
#include "golden/mlp_pdl.cuh"
#include "golden/mlp_row_sync.cuh"
#include "golden/mlp_stream_order.cuh"
#include "golden/mlp_tile_sync.cuh"
#include "launches.hpp"

namespace tessera::gpu {
namespace {

constexpr unsigned k_seeds[] = {1, 20261121, 0xfeedbeef};

using Words = std::vector<unsigned>;

/// Plans of one pipeline compute the same: its reference is computed once in a process, beside the GPU's
/// work.
std::shared_future<Words> reference(std::string const& pipeline, unsigned seed, int launches,
                                    Words (*compute)(unsigned, int)) {
  static std::map<std::string, std::shared_future<Words>> known;
  auto const key = pipeline + "/" + std::to_string(seed) + "/" + std::to_string(launches);
  auto found = known.find(key);
  if (found == known.end())
    found = known.emplace(key, std::async(std::launch::async, compute, seed, launches).share()).first;
  return found->second;
}

template <class Chain, bool All, class... Stage>
void expect_same(char const* pipeline, How how, bool in_place, int direct, int replays) {
  using Run = ChainRun<Chain, All, Stage...>;
  direct = gpu::launches(direct);
  replays = gpu::launches(replays);
  for (unsigned const seed : k_seeds)
    for (int const share : {1, 10}) reference(pipeline, seed, (direct + replays) / share, &Run::reference);
  for (unsigned const seed : k_seeds) {
    // Without jitter for speed; with it, for other interleavings, a tenth of the launches.
    for (unsigned const jitter_ns : {0u, 3000u}) {
      int const share = jitter_ns == 0 ? 1 : 10;
      int const launches = direct / share;
      int const graph_launches = replays / share;
      Run run(how, in_place, seed, jitter_ns);
      run.launch(launches);
      run.finish();
      ASSERT_EQ(run.stall().state, 0u) << "seed " << seed << ", stage " << run.stall().stage;
      run.replay(graph_launches, std::min(10, graph_launches));
      ASSERT_EQ(run.stall().state, 0u) << "seed " << seed << ", stage " << run.stall().stage;
      ASSERT_EQ(run.result(), reference(pipeline, seed, launches + graph_launches, &Run::reference).get())
          << "seed " << seed << ", jitter " << jitter_ns;
    }
  }
}

template <class Chain, class... Stage>
void expect_both(char const* pipeline, How how, bool in_place, int direct, int replays) {
  expect_same<Chain, true, Stage...>(pipeline, how, in_place, direct, replays);
  if (!testing::Test::HasFatalFailure())
    expect_same<Chain, false, Stage...>(pipeline, how, in_place, direct, replays);
}

TEST(GpuChain, MlpStreamOrder) {
  using namespace gpt_3_mlp_stream_order;
  expect_both<chain, gemm1, gemm2>("mlp", How::stream_order, false, 1000, 1000);
}
TEST(GpuChain, MlpPdl) {
  using namespace gpt_3_mlp_PDL;
  expect_both<chain, gemm1, gemm2>("mlp", How::pdl, false, 1000, 1000);
}
TEST(GpuChain, MlpRowSyncPdlTiles) {
  using namespace gpt_3_mlp_RowSync;
  expect_both<chain, gemm1, gemm2>("mlp", How::pdl, false, 1000, 1000);
}
TEST(GpuChain, MlpTileSyncWaitKernel) {
  using namespace gpt_3_mlp_TileSync;
  expect_both<chain, gemm1, gemm2>("mlp", How::wait_kernel, false, 1000, 1000);
}
TEST(GpuChain, AttentionPdlTiles) {
  using namespace attention;
  expect_both<chain, qkv, scores, softmax>("attention", How::pdl, false, 1000, 3000);
}
TEST(GpuChain, ConvolutionInPlaceWaitKernel) {
  using namespace plan_3x3_convolutions;
  expect_both<chain, conv1, conv2>("convolution", How::wait_kernel, true, 1000, 3000);
}
TEST(GpuChain, FusedWithTickets) {
  using namespace fused_swiglu;
  expect_both<chain, gate_up, down>("swiglu", How::fused, false, 1000, 2000);
}
TEST(GpuChain, FusedStageByStage) {
  using namespace fused_in_order;
  expect_both<chain, gate_up, down>("swiglu", How::fused, false, 1000, 2000);
}

/// A hundred thousand launches on one memory.
template <class Chain, class... Stage>
void expect_same_for_long(How how, bool in_place) {
  using Run = ChainRun<Chain, true, Stage...>;
  constexpr int k_launches = 100000;
  auto expected = std::async(std::launch::async, [] { return Run::reference(7, k_launches); });
  Run run(how, in_place, 7, 0);
  run.replay(k_launches, 20);
  ASSERT_EQ(run.stall().state, 0u);
  EXPECT_EQ(run.result(), expected.get());
}
TEST(GpuChain, AttentionHundredThousandReplays) {
  using namespace attention;
  expect_same_for_long<chain, qkv, scores, softmax>(How::pdl, false);
}
TEST(GpuChain, ConvolutionHundredThousandReplays) {
  using namespace plan_3x3_convolutions;
  expect_same_for_long<chain, conv1, conv2>(How::wait_kernel, true);
}
TEST(GpuChain, FusedHundredThousandReplays) {
  using namespace fused_swiglu;
  expect_same_for_long<chain, gate_up, down>(How::fused, false);
}

}  // namespace
}  // namespace tessera::gpu
