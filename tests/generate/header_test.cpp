// SPDX-License-Identifier: Apache-2.0
// What the golden headers compute, held to the plans that they were generated from: orders, semaphores,
// counts, waits, tickets. The headers are compiled in here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

#include "generate/examples.hpp"
#include "golden/attention.cuh"
#include "golden/convolution.cuh"
#include "golden/fused.cuh"
#include "golden/fused_in_order.cuh"
#include "golden/mixed.cuh"
#include "golden/mlp_pdl.cuh"
#include "golden/mlp_row_sync.cuh"
#include "golden/mlp_stream_order.cuh"
#include "golden/mlp_tile_sync.cuh"

namespace tessera {
namespace {

template <class Description>
void expect_order(Plan const& plan) {
  auto const index = static_cast<std::size_t>(Description::index);
  auto const& stage = plan.pipeline.stages.at(index);
  ASSERT_EQ(Description::grid().tiles(), stage.tiles());
  ASSERT_EQ(StageView<Description>::blocks, stage.blocks());
  StageView<Description> view;
  for (std::int64_t block = 0; block < stage.blocks(); ++block) {
    auto const expected = block_work(stage, plan.stages.at(index), block);
    view.begin(block, 0);
    EXPECT_EQ(linear_of(Description::grid(), view.tile()), expected.tile) << stage.name << " block " << block;
    EXPECT_EQ(view.split(), expected.split);
  }
}

template <class... Set>
std::vector<std::int64_t> posts_of_tile(Sets<Set...>, Tile const& tile) {
  return {SetOf<Set>::index_of(tile)...};
}

template <class Description>
void expect_posts(Plan const& plan) {
  for (std::int64_t tile = 0; tile < Description::grid().tiles(); ++tile)
    EXPECT_EQ(posts_of_tile(typename Description::Posts{}, tile_of(Description::grid(), tile)),
              posted_by(plan, Description::index, tile));
}

template <class Dependence>
void expect_waits(Plan const& plan, int index) {
  using Set = SetOf<typename Dependence::Set>;
  auto const& dependence = plan.pipeline.dependences.at(static_cast<std::size_t>(index));
  auto const grid = plan.pipeline.stages.at(static_cast<std::size_t>(dependence.consumer)).tile_grid();
  for (std::int64_t tile = 0; tile < grid.tiles(); ++tile) {
    std::vector<std::pair<std::int64_t, std::int64_t>> expected, waits;
    for (auto const& [semaphore, value] : awaited_by(plan, index, tile))
      expected.emplace_back(semaphore, value);
    for (int access = 0; access < Dependence::accesses; ++access) {
      auto const box = Dependence::box(access, tile_of(grid, tile));
      if (box.empty()) continue;
      for (long long i = 0; i < Set::waits_in(box); ++i)
        waits.emplace_back(Set::wait_in(box, i), Set::posts_of(Set::wait_in(box, i)));
    }
    std::sort(expected.begin(), expected.end());
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    EXPECT_EQ(waits, expected) << "dependence " << index << " tile " << tile;
  }
}

TEST(GeneratedHeader, MlpComputesThePlan) {
  auto const tile_sync = examples::mlp("TileSync", Mechanism::wait_kernel);
  expect_order<gpt_3_mlp_TileSync::gemm1>(tile_sync);
  expect_order<gpt_3_mlp_TileSync::gemm2>(tile_sync);
  expect_posts<gpt_3_mlp_TileSync::gemm1>(tile_sync);
  expect_waits<gpt_3_mlp_TileSync::dependences::gemm2_a_0>(tile_sync, 0);
  EXPECT_EQ(gpt_3_mlp_TileSync::chain::semaphores, 96);
  EXPECT_TRUE(gpt_3_mlp_TileSync::gemm2::wait_kernel);
  EXPECT_TRUE(gpt_3_mlp_TileSync::gemm1::announces_start);

  auto const row_sync = examples::mlp("RowSync", Mechanism::pdl_tiles);
  expect_posts<gpt_3_mlp_RowSync::gemm1>(row_sync);
  expect_waits<gpt_3_mlp_RowSync::dependences::gemm2_a_0>(row_sync, 0);
  EXPECT_EQ(gpt_3_mlp_RowSync::chain::semaphores, 4);
  EXPECT_TRUE(gpt_3_mlp_RowSync::gemm1::triggers_at_start);
  EXPECT_FALSE(gpt_3_mlp_RowSync::gemm2::triggers_at_start);
  EXPECT_TRUE(gpt_3_mlp_RowSync::gemm2::completes_after_previous);
  EXPECT_TRUE((std::is_same_v<gpt_3_mlp_PDL::dependences::gemm2_a_0::Set, WholeGrid>));
  EXPECT_TRUE((std::is_same_v<gpt_3_mlp_stream_order::dependences::gemm2_a_0::Set, NoSet>));
  EXPECT_EQ(gpt_3_mlp_stream_order::chain::semaphores, 0);
}

TEST(GeneratedHeader, AttentionComputesThePlan) {
  auto const plan = examples::attention();
  expect_order<attention::qkv>(plan);
  expect_order<attention::scores>(plan);
  expect_order<attention::softmax>(plan);
  expect_posts<attention::qkv>(plan);
  expect_posts<attention::scores>(plan);
  expect_waits<attention::dependences::scores_q_0>(plan, 0);
  expect_waits<attention::dependences::scores_k_1>(plan, 1);
  expect_waits<attention::dependences::softmax_s_2>(plan, 2);
}

TEST(GeneratedHeader, ConvolutionComputesThePlan) {
  auto const plan = examples::convolution();
  expect_order<plan_3x3_convolutions::conv1>(plan);
  expect_order<plan_3x3_convolutions::conv2>(plan);
  expect_posts<plan_3x3_convolutions::conv1>(plan);
  expect_waits<plan_3x3_convolutions::dependences::conv2_image_0>(plan, 0);
  EXPECT_EQ(plan_3x3_convolutions::conv2::BeforeStore::size, 1);
}

template <class Described>
void expect_tickets(Plan const& plan, Launch const& launch) {
  std::int64_t ticket = 0;
  auto const expect = [&](std::int64_t stage, std::int64_t block) {
    auto const drawn = Described::Tickets::ticket_at(ticket++);
    EXPECT_EQ(drawn.stage, stage);
    EXPECT_EQ(drawn.block, block);
  };
  for (auto const& entry : launch.tickets) expect(entry.stage, entry.position);
  if (launch.tickets.empty())
    for (int s = launch.first; s < launch.end(); ++s)
      for (std::int64_t block = 0; block < plan.pipeline.stages[static_cast<std::size_t>(s)].blocks();
           ++block)
        expect(s, block);
  EXPECT_EQ(ticket, Described::tickets);
  EXPECT_EQ(Described::workers, launch.workers);
  EXPECT_EQ(Described::first_stage, launch.first);
  auto const duties = duties_of(plan, launch.first);
  EXPECT_EQ(Described::triggers_at_start, duties.triggers);
  EXPECT_EQ(Described::completes_after_previous, duties.completes_after);
}

TEST(GeneratedHeader, FusedComputesThePlan) {
  auto const plan = examples::fused(true);
  expect_order<fused_swiglu::gate_up>(plan);
  expect_order<fused_swiglu::down>(plan);
  expect_posts<fused_swiglu::gate_up>(plan);
  expect_waits<fused_swiglu::dependences::down_a_0>(plan, 0);
  expect_tickets<fused_swiglu::chain>(plan, plan.launches.front());
  auto const in_order = examples::fused(false);
  expect_tickets<fused_in_order::chain>(in_order, in_order.launches.front());
}

template <class Description>
void expect_duties(Plan const& plan) {
  auto const duties = duties_of(plan, Description::index);
  EXPECT_EQ(Description::start, duties.start);
  EXPECT_EQ(Description::triggers_at_start, duties.triggers);
  EXPECT_EQ(Description::completes_after_previous, duties.completes_after);
  EXPECT_EQ(Description::announces_start, duties.announces_start);
}

TEST(GeneratedHeader, AMixedPlanComputesThePlan) {
  auto const plan = examples::mixed();
  expect_duties<mixed::embed>(plan);
  expect_duties<mixed::project>(plan);
  expect_duties<mixed::mix>(plan);
  expect_duties<mixed::norm>(plan);
  expect_duties<mixed::head>(plan);
  expect_waits<mixed::dependences::mix_a_1>(plan, 1);
  expect_tickets<mixed::workers::project>(plan, plan.launches[1]);
  EXPECT_TRUE((std::is_same_v<mixed::dependences::project_a_0::Set, WholeGrid>));
  EXPECT_TRUE((std::is_same_v<mixed::dependences::norm_a_2::Set, NoSet>));
  EXPECT_TRUE(mixed::head::wait_kernel);
  EXPECT_TRUE((std::is_same_v<mixed::norm::BeforeStore, Sets<>>));
  EXPECT_TRUE((std::is_same_v<mixed::mix::BeforeStore, Sets<WholeGrid>>));
}

}  // namespace
}  // namespace tessera
