// SPDX-License-Identifier: Apache-2.0
// Measured timelines, and that kernels are loaded before the first of them spins.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>

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
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused}) {
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

// Events see launches that do not start early; of those that do the first begin and the last end.
TEST(MeasuredTimeline, IsByLaunchForKernelsThatWriteNoStamps) {
  ChainOptions timed;
  timed.time_launches = true;
  timed.dispatches_in_launch_order = true;
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused})
    for (bool const replayed : {false, true}) {
      SCOPED_TRACE(std::string(to_text(mechanism)) + (replayed ? ", replayed" : ""));
      auto const plan = plan_of(mechanism);
      DeviceData const data(plan.pipeline, 8);
      auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), Kind::watched), timed);
      ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
      Stream stream;
      data.poison(stream);
      if (replayed) {
        auto graph = chain->capture();
        ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(graph->launch(stream).has_value());
        ASSERT_TRUE(chain->finish().has_value());
      } else {
        ASSERT_TRUE(chain->launch(stream).has_value());
        ASSERT_TRUE(chain->finish().has_value());
      }
      auto const timeline = chain->timeline();
      ASSERT_TRUE(timeline.has_value()) << to_text(timeline.error());
      EXPECT_TRUE(timeline->by_launch && timeline->measured);
      EXPECT_GT(timeline->end, 0);
      EXPECT_LT(timeline->end, 1'000'000'000);
      auto const& stages = timeline->stages;
      bool const apart = mechanism == Mechanism::stream_order;
      for (std::size_t s = 1; s < stages.size(); ++s) {
        EXPECT_GT(stages[s].last_end, stages[s].first_start);
        if (apart) {
          EXPECT_GE(stages[s].first_start, stages[s - 1].last_end);
        } else if (mechanism != Mechanism::wait_kernel) {
          EXPECT_EQ(stages[s].first_start, stages[0].first_start);
        }
      }
      auto const again = parse_timeline(print_timeline(*timeline), "measured");
      ASSERT_TRUE(again.has_value()) << to_text(again.error());
      EXPECT_EQ(*again, *timeline);
      std::printf("%s\n", summary(*timeline).c_str());
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

/// Ends when a kernel of that name would have, were it behind a kernel that spins for `milliseconds`.
double finish_beside_a_spinning_kernel(int milliseconds, std::function<void(cudaStream_t)> const& launch,
                                       std::function<void(cudaStream_t)> const& finish) {
  Stream spinning, stream;
  vector_chain::spin(milliseconds, spinning);
  auto const start = std::chrono::steady_clock::now();
  launch(stream);
  finish(stream);
  std::chrono::duration<double, std::milli> const took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(cudaStreamSynchronize(spinning), cudaSuccess);
  return took.count();
}

// In a process of its own (tests/run_gpu/CMakeLists.txt), in which nothing else has loaded the kernels.
TEST(Preloading, AChainRunsBesideAKernelThatSpins) {
  auto const plan = plan_of(Mechanism::wait_kernel);
  DeviceData const data(plan.pipeline, 8);
  vector_chain::spin(1, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ChainOptions o;
  o.dispatches_in_launch_order = true;
  auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), Kind::bare), o);
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  auto const took = finish_beside_a_spinning_kernel(
      400, [&](cudaStream_t stream) { ASSERT_TRUE(chain->launch(stream).has_value()); },
      [&](cudaStream_t) { ASSERT_TRUE(chain->finish().has_value()); });
  EXPECT_LT(took, 200);
  // The control: a kernel that nobody has loaded. What it takes is the driver's business.
  auto const control = finish_beside_a_spinning_kernel(
      400, [](cudaStream_t stream) { vector_chain::launch_empty(stream); },
      [](cudaStream_t stream) { cudaStreamSynchronize(stream); });
  std::printf(
      "beside a kernel that spins for 400 ms: a chain took %.1f ms, a kernel not loaded before %.1f ms\n",
      took, control);
}

}  // namespace
}  // namespace tessera
