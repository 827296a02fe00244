// SPDX-License-Identifier: Apache-2.0
// Chains of tile functions on the GPU, against the CPU reference.
#include <gmock/gmock.h>

#include <memory>

#include "run_gpu/device_data.hpp"
#include "support/assert_ok.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

using support::Policy;
using vector_chain::DeviceData;
using vector_chain::Kind;
using vector_chain::Stream;

constexpr Mechanism k_mechanisms[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                      Mechanism::pdl_tiles, Mechanism::fused};

enum class Order { block_index, row_major, columns_first, merged };

Plan make(int stages, Mechanism mechanism, Policy policy, Order order, int columns = 24, int rows = 20,
          int splits = 1) {
  auto const h200 = machine("h200").value();
  auto plan = support::make_plan(vector_chain::pipeline(stages, columns, rows, splits), h200, mechanism,
                                 policy, {.avoid_custom_order = order == Order::block_index});
  for (auto& stage : plan.stages) {
    stage.plain_store = true;
    if (order != Order::columns_first || !stage.custom_order) continue;
    std::vector<std::int32_t> table;
    for (int x = 0; x < columns; ++x)
      for (int y = 0; y < rows; ++y) table.push_back(x + columns * y);
    stage.order = make_order("columns first", table);
  }
  if (order == Order::merged && mechanism == Mechanism::fused) {
    std::vector<TileOrder> orders;
    for (auto const& stage : plan.stages) orders.push_back(stage.order);
    plan.launches.front().tickets = merged_tickets(plan.pipeline, orders, {}, 30);
  }
  return plan;
}

std::string words(Plan const& plan, Policy policy, Order order, int stages, int splits) {
  char const* const orders[] = {"block index", "row major", "columns first", "merged"};
  return mechanism_text(plan) + ", " + support::name_of(policy) + ", " + orders[static_cast<int>(order)] +
         ", " + std::to_string(stages) + " stages, " + std::to_string(splits) + " splits";
}

ChainOptions options() {
  ChainOptions o;
  // As the machine profile says of this GPU.
  o.dispatches_in_launch_order = true;
  return o;
}

Chain chain_of(Plan const& plan, DeviceData const& data, Kind kind, ChainOptions const& o,
               long long unposted = -1) {
  auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), kind, unposted), o);
  if (!chain) throw std::runtime_error(to_text(chain.error()));
  return std::move(*chain);
}

struct Launches {
  int direct;
  int replays;
};

/// Launches and replays, each on poisoned outputs and compared.
void expect_right(Chain& chain, DeviceData const& data, Launches launches) {
  Stream stream;
  for (int i = 0; i < launches.direct; ++i) {
    data.poison(stream);
    ASSERT_OK(chain.launch(stream));
    data.compare(stream);
  }
  if (launches.replays > 0) {
    auto graph = chain.capture();
    ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
    for (int i = 0; i < launches.replays; ++i) {
      data.poison(stream);
      ASSERT_OK(graph->launch(stream));
      data.compare(stream);
    }
    ASSERT_OK(chain.finish());
  }
  ASSERT_OK(chain.finish());
  EXPECT_EQ(data.mismatches(), 0u);
}

TEST(Chain, EveryMechanismPolicyAndOrderGivesTheReference) {
  int chains = 0;
  for (int const stages : {2, 3})
    for (int const splits : {1, 2}) {
      DeviceData const data(vector_chain::pipeline(stages, 24, 20, splits),
                            7u + static_cast<unsigned>(splits));
      for (auto const mechanism : k_mechanisms)
        for (auto const policy : {Policy::tile_sync, Policy::row_sync, Policy::whole_grid})
          for (auto const order :
               {Order::block_index, Order::row_major, Order::columns_first, Order::merged}) {
            if (!uses_semaphores(mechanism) && (policy != Policy::tile_sync || order != Order::block_index))
              continue;
            // One semaphore for a whole stage leaves nothing to merge: the proof refuses such tickets.
            if (order == Order::merged && (mechanism != Mechanism::fused || policy == Policy::whole_grid))
              continue;
            auto const plan = make(stages, mechanism, policy, order, 24, 20, splits);
            SCOPED_TRACE(words(plan, policy, order, stages, splits));
            auto chain = chain_of(plan, data, Kind::watched, options());
            expect_right(chain, data, {3, 20});
            if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
            ++chains;
          }
    }
  RecordProperty("chains", chains);
}

TEST(Chain, SeveralLaunchesAtOnceGiveTheReference) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 1), 31);
  for (auto const mechanism : k_mechanisms) {
    SCOPED_TRACE(to_text(mechanism));
    auto chain =
        chain_of(make(3, mechanism, Policy::row_sync, Order::row_major), data, Kind::watched, options());
    Stream stream;
    auto graph = chain.capture(0, 5);
    ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
    for (int i = 0; i < 5; ++i) {
      data.poison(stream);
      ASSERT_OK(chain.launch(stream, 0, 4));
      data.compare(stream);
      ASSERT_OK(chain.launch(stream, 0, 0));
      data.poison(stream);
      ASSERT_OK(graph->launch(stream));
      data.compare(stream);
    }
    ASSERT_OK(chain.finish());
    EXPECT_EQ(data.mismatches(), 0u);
  }
}

TEST(Chain, ALaunchThatWasEnqueuedInPartLeavesNothingBehind) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 1), 32);
  auto const plan = make(3, Mechanism::pdl_tiles, Policy::row_sync, Order::row_major);
  auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
  auto const fails = std::make_shared<bool>(false);
  // The third kernel of the second of several launches has more arguments than there can be.
  kernels[2].pack = [fails, pack = kernels[2].pack](ChainViews const& views, KernelArguments& arguments) {
    pack(views, arguments);
    for (int i = 0; i < 64 && *fails && views.repetition == 1; ++i) arguments.add(i);
  };
  auto chain = Chain::make(plan, kernels, options());
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  auto graph = chain->capture();
  ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
  Stream stream;
  for (bool const captured : {false, true, false}) {
    *fails = true;
    auto const launched = chain->launch(stream, 0, 3);
    ASSERT_FALSE(launched.has_value());
    EXPECT_EQ(launched.error().front().code, "E0510");
    *fails = false;
    data.poison(stream);
    ASSERT_OK(captured ? graph->launch(stream) : chain->launch(stream, 0, 2));
    data.compare(stream);
    ASSERT_OK(chain->finish());
    EXPECT_EQ(data.mismatches(), 0u);
  }
}

TEST(Chain, ManyReplaysWithoutAWatchNeedNoReset) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 1), 3);
  for (auto const mechanism : k_mechanisms) {
    SCOPED_TRACE(to_text(mechanism));
    auto chain =
        chain_of(make(3, mechanism, Policy::row_sync, Order::row_major), data, Kind::bare, options());
    Stream stream;
    auto graph = chain.capture();
    ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
    for (int i = 0; i < 20'000; ++i) {
      if (i % 20 == 0) data.poison(stream);
      ASSERT_OK(graph->launch(stream));
      if (i % 20 == 19) data.compare(stream);
    }
    ASSERT_OK(chain.finish());
    EXPECT_EQ(data.mismatches(), 0u);
  }
}

/// Five stages: a kernel; early, two more in one persistent launch, by tiles inside it and behind a grid-wide
/// wait; in order a fourth kernel, and the last beside it behind a wait kernel or early behind tiles.
Plan mixed(LaunchStart last, bool merged) {
  auto const h200 = machine("h200").value();
  auto const pipeline = vector_chain::pipeline(5, 24, 20, 2);
  bool const beside = last == LaunchStart::beside;
  std::vector<Launch> launches = {{0, 1, LaunchStart::in_order, false, 0, {}},
                                  {1, 2, LaunchStart::early, false, 132, {}},
                                  {3, 1, LaunchStart::in_order, false, 0, {}},
                                  {4, 1, last, beside, 0, {}}};
  if (merged)
    for (std::int32_t row = 0; row < 20; ++row)
      for (std::int32_t stage = 1; stage < 3; ++stage)
        for (std::int32_t x = 0; x < 24; ++x) launches[1].tickets.push_back({stage, row * 24 + x});
  // The last dependence is that of fifth on fourth.
  return support::make_plan(pipeline, h200, launches, Policy::row_sync,
                            {static_cast<int>(pipeline.dependences.size()) - 1});
}

TEST(Chain, MixedPlansGiveTheReference) {
  DeviceData const data(vector_chain::pipeline(5, 24, 20, 2), 21);
  for (auto const last : {LaunchStart::in_order, LaunchStart::early, LaunchStart::beside})
    for (bool const merged : {false, true}) {
      auto const plan = mixed(last, merged);
      SCOPED_TRACE(mechanism_text(plan) + (merged ? ", merged" : ""));
      auto chain = chain_of(plan, data, Kind::watched, options());
      expect_right(chain, data, {20, 200});
    }
}

TEST(Chain, WorkersThatLetTheNextLaunchStartEarlyGiveTheReference) {
  DeviceData const data(vector_chain::pipeline(5, 24, 20, 1), 22);
  auto const h200 = machine("h200").value();
  // All in one group: two persistent launches, each with a kernel behind it; each dependence by tiles or by
  // a grid-wide wait.
  for (int by_tiles = 0; by_tiles < 2; ++by_tiles) {
    auto const pipeline = vector_chain::pipeline(5, 24, 20, 1);
    std::vector<int> tiles(by_tiles == 0 ? 0 : pipeline.dependences.size());
    for (std::size_t d = 0; d < tiles.size(); ++d) tiles[d] = static_cast<int>(d);
    auto const plan = support::make_plan(pipeline, h200,
                                         {{0, 2, LaunchStart::in_order, false, 132, {}},
                                          {2, 1, LaunchStart::early, false, 0, {}},
                                          {3, 1, LaunchStart::early, false, 66, {}},
                                          {4, 1, LaunchStart::early, false, 0, {}}},
                                         Policy::row_sync, tiles);
    SCOPED_TRACE(mechanism_text(plan));
    auto chain = chain_of(plan, data, Kind::watched, options());
    expect_right(chain, data, {20, 200});
  }
}

TEST(Chain, PersistentGridsGiveTheReference) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 2), 23);
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles})
    for (auto const order : {Order::block_index, Order::row_major}) {
      auto plan = make(3, mechanism, Policy::row_sync, order, 24, 20, 2);
      for (auto& stage : plan.stages) stage.persistent_blocks = 100;
      SCOPED_TRACE(words(plan, Policy::row_sync, order, 3, 2));
      auto chain = chain_of(plan, data, Kind::watched, options());
      expect_right(chain, data, {3, 20});
    }
}

TEST(Chain, LaunchesOfOneChainOnTwoStreamsDoNotOverlap) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 1), 4);
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused}) {
    auto chain =
        chain_of(make(3, mechanism, Policy::row_sync, Order::row_major), data, Kind::watched, options());
    Stream a, b;
    for (int i = 0; i < 50; ++i) ASSERT_OK(chain.launch(i % 2 == 0 ? a : b));
    ASSERT_OK(chain.finish());
    data.compare(a);
    EXPECT_EQ(data.mismatches(), 0u);
  }
}

TEST(Chain, SeveralAreInFlightAtOnce) {
  std::vector<std::unique_ptr<DeviceData>> data;
  std::vector<Chain> chains;
  std::vector<std::unique_ptr<Stream>> streams;
  for (auto const mechanism :
       {Mechanism::pdl_tiles, Mechanism::fused, Mechanism::pdl_tiles, Mechanism::stream_order}) {
    auto plan = make(3, mechanism, Policy::row_sync, Order::row_major);
    data.push_back(std::make_unique<DeviceData>(plan.pipeline, 10u + static_cast<unsigned>(data.size())));
    chains.push_back(chain_of(plan, *data.back(), Kind::watched, options()));
    streams.push_back(std::make_unique<Stream>());
  }
  for (int i = 0; i < 50; ++i)
    for (std::size_t c = 0; c < chains.size(); ++c) {
      data[c]->poison(*streams[c]);
      ASSERT_OK(chains[c].launch(*streams[c]));
      data[c]->compare(*streams[c]);
    }
  for (std::size_t c = 0; c < chains.size(); ++c) {
    ASSERT_OK(chains[c].finish());
    EXPECT_EQ(data[c]->mismatches(), 0u);
  }
}

TEST(Chain, AMissingPostIsNamedAndTheChainIsUsableAfterwards) {
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused})
    for (auto const policy : {Policy::row_sync, Policy::tile_sync}) {
      SCOPED_TRACE(std::string(to_text(mechanism)) + support::name_of(policy));
      auto const plan = make(2, mechanism, policy, Order::row_major);
      DeviceData const data(plan.pipeline, 5);
      auto o = options();
      o.deadline_seconds = 0.05;
      auto stuck = chain_of(plan, data, Kind::watched, o, 17 + 24 * 3);
      Stream stream;
      for (int round = 0; round < 2; ++round) {
        ASSERT_OK(stuck.launch(stream));
        auto const outcome = stuck.finish();
        ASSERT_FALSE(outcome.has_value());
        auto const& report = outcome.error().front();
        EXPECT_EQ(report.code, "E0520");
        EXPECT_THAT(report.message, testing::StartsWith("second tile ("));
        EXPECT_THAT(report.message, testing::HasSubstr(", 3) waits for "));
        EXPECT_THAT(report.message, testing::HasSubstr("23 of 24 posted"));
        EXPECT_EQ(stuck.last_stall().state, 2u);
        EXPECT_EQ(stuck.last_stall().stage, 1);
        EXPECT_LT(stuck.last_stall().seen, stuck.last_stall().expected);
        if (policy == Policy::row_sync)
          EXPECT_THAT(report.message, testing::HasSubstr("row 3 of first"));
        else
          EXPECT_THAT(report.message, testing::HasSubstr("missing first(17, 3)"));
        if (round == 0) std::printf("%s\n", to_text(report).c_str());
      }
      // The GPU and other chains go on.
      auto good = chain_of(plan, data, Kind::watched, o);
      expect_right(good, data, {2, 2});
      // A waiting stage that the record stopped has not posted: only the zeroed memory makes this right.
      ASSERT_OK(stuck.finish());
      EXPECT_EQ(stuck.last_stall().state, 0u);
    }
}

TEST(Chain, IsUsableAfterAStallOfItsOwn) {
  auto const plan = make(2, Mechanism::pdl_tiles, Policy::row_sync, Order::row_major);
  DeviceData const data(plan.pipeline, 6);
  auto o = options();
  o.deadline_seconds = 0.05;
  // The argument is read at every launch.
  auto broken = vector_chain::kernels(plan, data.buffers(), Kind::watched, 5);
  auto const whole = vector_chain::kernels(plan, data.buffers(), Kind::watched);
  auto drop = std::make_shared<bool>(true);
  auto const pack_broken = broken[0].pack;
  auto const pack_whole = whole[0].pack;
  broken[0].pack = [=](ChainViews const& views, KernelArguments& arguments) {
    (*drop ? pack_broken : pack_whole)(views, arguments);
  };
  auto chain = Chain::make(plan, broken, o);
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  Stream stream;
  ASSERT_OK(chain->launch(stream));
  ASSERT_FALSE(chain->finish().has_value());
  *drop = false;
  expect_right(*chain, data, {3, 5});
}

// Or they would never share an SM: see division_for().
TEST(GpuChain, AllLaunchesDivideAnSmsMemoryAlikeAndTheKernelsStayAsTheyAre) {
  auto const plan = make(3, Mechanism::wait_kernel, Policy::row_sync, Order::row_major);
  DeviceData const data(plan.pipeline, 1);
  auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
  kernels[1].dynamic_shared_bytes = 48 * 1024;
  auto chain = Chain::make(plan, kernels, options());
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  for (auto const& kernel : kernels) {
    cudaFuncAttributes attributes;
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, kernel.function), cudaSuccess);
    EXPECT_EQ(attributes.preferredShmemCarveout, -1) << "the whole process's";
  }
  Stream stream;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_OK(chain->launch(stream));
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::size_t count = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  std::vector<cudaGraphNode_t> nodes(count);
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  std::vector<unsigned> percent;
  for (auto* const node : nodes) {
    cudaGraphNodeType type;
    ASSERT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
    if (type != cudaGraphNodeTypeKernel) continue;
    cudaLaunchAttributeValue value{};
    ASSERT_EQ(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePreferredSharedMemoryCarveout, &value),
              cudaSuccess);
    percent.push_back(value.sharedMemCarveout);
  }
  cudaGraphDestroy(graph);
  // Three kernels and two wait kernels; four blocks of 49 KB of 228: four fifths and more.
  ASSERT_EQ(percent.size(), 5u);
  EXPECT_GE(percent[0], 80u);
  EXPECT_THAT(percent, testing::Each(percent[0]));
}

TEST(GpuChain, AnotherChainWithLessSharedMemoryTakesNoneAway) {
  auto const plan = make(3, Mechanism::pdl_tiles, Policy::row_sync, Order::row_major);
  DeviceData const data(plan.pipeline, 2);
  auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
  kernels[1].dynamic_shared_bytes = 100 * 1024;
  auto more = Chain::make(plan, kernels, options());
  ASSERT_TRUE(more.has_value()) << to_text(more.error());
  kernels[1].dynamic_shared_bytes = 60 * 1024;
  auto less = Chain::make(plan, kernels, options());
  ASSERT_TRUE(less.has_value()) << to_text(less.error());
  expect_right(*more, data, {2, 2});
  expect_right(*less, data, {2, 2});
}

}  // namespace
}  // namespace tessera
