// SPDX-License-Identifier: Apache-2.0
// Measured timelines, and that kernels are loaded before the first of them spins.
#include <cuda.h>
#include <gmock/gmock.h>

#include "run_gpu/device_data.hpp"
#include "support/plans.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/timeline_json.hpp"

namespace tessera {
namespace {

using support::Policy;
using vector_chain::DeviceData;
using vector_chain::Kind;
using vector_chain::Stream;

Plan plan_of(Mechanism mechanism) {
  return support::make_plan(vector_chain::pipeline(3, 24, 20, 1), machine("h200").value(), mechanism,
                            Policy::row_sync);
}
ChainOptions recording() {
  ChainOptions o;
  o.record = true;
  o.dispatches_in_launch_order = true;
  return o;
}

/// The timer ticks in steps, and two SMs may see a step at different times.
constexpr std::int64_t k_timer_slack_ps = 2'100'000;

void expect_producers_first(Plan const& plan, Timeline const& timeline) {
  std::vector<std::vector<TileRecord>> by_stage(plan.pipeline.stages.size());
  for (auto const& stage : plan.pipeline.stages)
    by_stage[static_cast<std::size_t>(find_stage(plan.pipeline, stage.name))].resize(
        static_cast<std::size_t>(stage.tiles()));
  for (auto const& record : timeline.tiles)
    by_stage[static_cast<std::size_t>(record.stage)][static_cast<std::size_t>(record.tile)] = record;
  std::vector<std::int64_t> producers;
  for (auto const& dependence : plan.pipeline.dependences) {
    TileRelation const relation(plan.pipeline, dependence);
    for (auto const& consumer : by_stage[static_cast<std::size_t>(dependence.consumer)]) {
      relation.producers_of(consumer.tile, producers);
      for (auto const tile : producers) {
        auto const& producer =
            by_stage[static_cast<std::size_t>(dependence.producer)][static_cast<std::size_t>(tile)];
        ASSERT_GE(consumer.loaded + k_timer_slack_ps, producer.stored)
            << tile_name(plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)], consumer.tile);
      }
    }
  }
}

TEST(MeasuredTimeline, IsSaneForEveryMechanism) {
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel, Mechanism::pdl_tiles,
                               Mechanism::fused}) {
    SCOPED_TRACE(to_text(mechanism));
    auto const plan = plan_of(mechanism);
    DeviceData const data(plan.pipeline, 8);
    auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), Kind::recording), recording());
    ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
    Stream stream;
    for (int i = 0; i < 3; ++i) {
      data.poison(stream);
      ASSERT_TRUE(chain->launch(stream).has_value());
      data.compare(stream);
    }
    ASSERT_TRUE(chain->finish().has_value());
    EXPECT_EQ(data.mismatches(), 0u);
    auto const timeline = chain->timeline();
    ASSERT_TRUE(timeline.has_value()) << to_text(timeline.error());
    EXPECT_EQ(timeline->tiles.size(), 3u * 480u);
    EXPECT_TRUE(timeline->measured);
    EXPECT_GT(timeline->end, 0);
    EXPECT_LT(timeline->end, 1'000'000'000);
    EXPECT_GT(timeline->busy, 0);
    // What the reader of timelines refuses, the measurement must not make.
    auto const again = parse_timeline(print_timeline(*timeline), "measured");
    ASSERT_TRUE(again.has_value()) << to_text(again.error());
    EXPECT_EQ(*again, *timeline);
    expect_producers_first(plan, *timeline);
    std::printf("%s\n", summary(*timeline).c_str());
    if (mechanism == Mechanism::pdl_tiles) {
      auto const predicted = simulate(plan, machine("h200").value());
      if (predicted) std::printf("%s\n", diff(*predicted, *timeline).c_str());
    }
  }
}

TEST(MeasuredTimeline, IsRefusedWhereNothingWasRecorded) {
  auto const plan = plan_of(Mechanism::pdl_tiles);
  DeviceData const data(plan.pipeline, 8);
  auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), Kind::watched), recording());
  ASSERT_TRUE(chain.has_value());
  Stream stream;
  ASSERT_TRUE(chain->launch(stream).has_value());
  auto const timeline = chain->timeline();
  ASSERT_FALSE(timeline.has_value());
  EXPECT_EQ(timeline.error().front().code, "E0522");
}

/// 1: the driver has loaded the function; 0: it has not; -1: it cannot say.
int is_loaded(void const* function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuFuncIsLoaded", &entry, 12040, cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess)
    return -1;
  cudaFunction_t handle{};
  if (cudaGetFuncBySymbol(&handle, function) != cudaSuccess) return -1;
  CUfunctionLoadingState state{};
  auto const call = reinterpret_cast<CUresult (*)(CUfunctionLoadingState*, CUfunction)>(entry);
  if (call(&state, reinterpret_cast<CUfunction>(handle)) != CUDA_SUCCESS) return -1;
  return state == CU_FUNCTION_LOADING_STATE_LOADED ? 1 : 0;
}

TEST(Preloading, EveryKernelIsLoadedBeforeTheFirstLaunch) {
  auto const plan = plan_of(Mechanism::wait_kernel);
  DeviceData const data(plan.pipeline, 8);
  auto const kernels = vector_chain::kernels(plan, data.buffers(), Kind::bare);
  auto const before = is_loaded(vector_chain::empty_kernel());
  if (before < 0) GTEST_SKIP() << "the driver has no cuFuncIsLoaded";
  ChainOptions o;
  o.dispatches_in_launch_order = true;
  auto const chain = Chain::make(plan, kernels, o);
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  for (auto const& kernel : kernels) EXPECT_EQ(is_loaded(kernel.function), 1);
  std::printf("a kernel that no chain has: loaded %d\n", is_loaded(vector_chain::empty_kernel()));
}

}  // namespace
}  // namespace tessera
