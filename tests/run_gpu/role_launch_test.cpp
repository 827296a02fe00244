// SPDX-License-Identifier: Apache-2.0
// Tile functions in launches with roles on a GPU: equal bits, graphs, a tile that comes too late.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "gpu/launches.hpp"
#include "run_gpu/loop_data.hpp"
#include "run_gpu/role_launch.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

using loop_tiles::k_width;
using role_tiles::block;
using role_tiles::RoleLaunch;
using testing::HasSubstr;
using vector_chain::device_array;
using vector_chain::device_copy;
using vector_chain::DeviceArray;
using vector_chain::Stream;

/// The line in two copies on the device, and what it should be.
struct Line {
  explicit Line(int of)
      : columns(of), now(static_cast<std::size_t>(of) * k_width), even(device_array<unsigned>(now.size())) {
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<unsigned>(i * 31 + 7);
    odd = device_copy(now);
  }
  loop_tiles::Stencil stencil(int slow) const { return {{even.get(), odd.get()}, columns, slow}; }
  void step(long long iterations) {
    for (long long n = 0; n < iterations; ++n) now = loop_tiles::stepped(now, columns);
  }
  /// After a launch of so many iterations; the next launch begins with copy 1.
  std::vector<unsigned> found(long long iterations) const {
    std::vector<unsigned> result(now.size());
    auto const bytes = now.size() * sizeof(unsigned);
    auto const* const last = iterations % 2 == 0 ? odd.get() : even.get();
    EXPECT_EQ(cudaMemcpy(result.data(), last, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    if (last != odd.get()) {
      EXPECT_EQ(cudaMemcpy(odd.get(), last, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
    }
    return result;
  }
  void start_again() const {
    EXPECT_EQ(cudaMemcpy(odd.get(), now.data(), now.size() * sizeof(unsigned), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  int columns;
  std::vector<unsigned> now;
  DeviceArray<unsigned> even, odd;
};

void check_stencil(MachineProfile const& machine, int columns, int workers, int slow, bool starts_early,
                   Dealing dealing, std::vector<int> const& launches) {
  SCOPED_TRACE(std::to_string(columns) + " columns, " + std::to_string(workers) + " workers" +
               (dealing == Dealing::queue ? ", a queue" : ""));
  auto const plan = plan_loop(loop_tiles::stencil_loop(columns, block()), machine, workers);
  ASSERT_OK(plan);
  Line line(columns);
  RoleOptions options;
  options.starts_early = starts_early;
  options.dealing = dealing;
  auto chain = role_tiles::stencil(*plan, line.stencil(slow), nullptr, options);
  ASSERT_OK(chain);
  Stream const stream;
  for (int const iterations : launches) {
    ASSERT_OK(chain->launch(stream, iterations));
    ASSERT_OK(chain->finish());
    line.step(iterations);
    ASSERT_EQ(line.found(iterations), line.now) << iterations << " iterations";
  }
}

TEST_F(RoleLaunch, AStencilIsRightForAnyNumberOfIterations) {
  for (auto const dealing : {Dealing::lists, Dealing::queue}) {
    check_stencil(machine, 300, machine.sms, 0, false, dealing, {1, 2, 7, 1, 1000, 0, 10});
    check_stencil(machine, 5000, 0, 0, false, dealing, {3, 50});
    check_stencil(machine, 40, 3, 0, false, dealing, {0, 1, 33});
    check_stencil(machine, 5, machine.sms, 0, false, dealing, {1, 8, 100});
  }
}

TEST_F(RoleLaunch, LateTilesChangeNothing) {
  for (auto const dealing : {Dealing::lists, Dealing::queue})
    for (bool const starts_early : {false, true})
      check_stencil(machine, 400, machine.sms, 23, starts_early, dealing, {10, 1, 100});
}

TEST_F(RoleLaunch, ABlockWithALongTileDrawsFewOthers) {
  constexpr int tiles = 400, workers = 4;
  PipelineBuilder builder("one_stage");
  auto [x] = builder.dims("x");
  builder.stage("stage", {x = tiles}).output("blocks").resources(block());
  auto const loop = builder.build_loop();
  ASSERT_OK(loop);
  auto const plan = plan_loop(*loop, machine, workers);
  ASSERT_OK(plan);
  auto const of_first = [&](Dealing dealing) -> long {
    auto const blocks = device_copy(std::vector<int>(tiles, -1));
    RoleOptions options;
    options.dealing = dealing;
    auto chain = role_tiles::blocks_of_tiles(*plan, blocks.get(), options);
    EXPECT_TRUE(chain && chain->launch(nullptr, 1) && chain->finish());
    std::vector<int> found(tiles);
    EXPECT_EQ(cudaMemcpy(found.data(), blocks.get(), tiles * sizeof(int), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(std::count(found.begin(), found.end(), -1), 0);
    return std::count(found.begin(), found.end(), 0);
  };
  EXPECT_EQ(of_first(Dealing::lists), tiles / workers);
  // Tile 0, three behind it, and one more that its warp has drawn.
  EXPECT_LE(of_first(Dealing::queue), k_role_jobs + 1);
}

constexpr std::pair<bool, Dealing> k_launches[] = {
    {false, Dealing::lists}, {true, Dealing::lists}, {false, Dealing::queue}, {true, Dealing::queue}};

TEST_F(RoleLaunch, LaunchesInARowAreRight) {
  for (auto const& [starts_early, dealing] : k_launches) {
    auto const plan = plan_loop(loop_tiles::stencil_loop(200, block()), machine, machine.sms);
    ASSERT_OK(plan);
    Line line(200);
    RoleOptions options;
    options.starts_early = starts_early;
    options.dealing = dealing;
    options.chain.deadline_seconds = gpu::patient(options.chain.deadline_seconds);
    auto chain = role_tiles::stencil(*plan, line.stencil(61), nullptr, options);
    ASSERT_OK(chain);
    Stream const streams[2];
    // Nothing waits in between; even numbers leave the line in copy 1.
    for (int const iterations : {2, 30, 0, 4, 20, 6}) {
      ASSERT_OK(chain->launch(streams[iterations % 4 / 2], iterations));
      line.step(iterations);
    }
    ASSERT_OK(chain->finish());
    ASSERT_EQ(line.found(6), line.now)
        << "starts early: " << starts_early << ", a queue: " << (dealing == Dealing::queue);
  }
}

TEST_F(RoleLaunch, GraphsAreRight) {
  for (auto const& [starts_early, dealing] : k_launches) {
    auto const plan = plan_loop(loop_tiles::stencil_loop(150, block()), machine, machine.sms);
    ASSERT_OK(plan);
    Line line(150);
    RoleOptions options;
    options.starts_early = starts_early;
    options.dealing = dealing;
    auto chain = role_tiles::stencil(*plan, line.stencil(0), nullptr, options);
    ASSERT_OK(chain);
    auto odd = chain->capture(7), even = chain->capture(20);
    ASSERT_OK(odd);
    ASSERT_OK(even);
    Stream const stream;
    for (int replay = 0; replay < 5; ++replay) {
      ASSERT_OK(even->launch(stream));
      ASSERT_OK(even->launch(stream));
      ASSERT_OK(chain->launch(stream, 4));
      ASSERT_OK(odd->launch(stream));
      ASSERT_OK(chain->finish());
      line.step(51);
      ASSERT_EQ(line.found(7), line.now)
          << replay << ", starts early: " << starts_early << ", a queue: " << (dealing == Dealing::queue);
    }
  }
}

TEST_F(RoleLaunch, TwoHundredStagesAreOneKernel) {
  int const stages = 200, columns = 12;
  auto const plan = loop_tiles::many_stages_plan(stages, columns, block(), machine, 64);
  ASSERT_OK(plan);
  auto const count = static_cast<std::size_t>(stages) * columns * k_width;
  auto const values = device_array<unsigned>(count);
  auto chain = role_tiles::many_stages(*plan, values.get(), {});
  ASSERT_OK(chain);
  Stream const stream;
  for (long long const iterations : {1, 40}) {
    ASSERT_OK(chain->launch(stream, iterations));
    ASSERT_OK(chain->finish());
    std::vector<unsigned> found(count);
    ASSERT_EQ(cudaMemcpy(found.data(), values.get(), count * sizeof(unsigned), cudaMemcpyDeviceToHost),
              cudaSuccess);
    loop_tiles::expect_many_stages(found, stages, columns, iterations);
  }
  auto const since = std::chrono::steady_clock::now();
  ASSERT_OK(chain->launch(stream, 1000));
  ASSERT_OK(chain->finish());
  double const us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count();
  std::printf("200000 stages of %d tiles by %d workers with roles: %.3f us a stage\n", columns,
              plan->plan.launches.front().workers, us / 200000);
}

/// Blocks that wait for nothing, and so for their next job most of the time, when a wait elsewhere meets its
/// deadline: all their warps leave.
TEST_F(RoleLaunch, AStallEndsBlocksThatFetchTheirNextJob) {
  PipelineBuilder builder("stalled");
  auto [x] = builder.dims("x");
  auto slow = builder.stage("slow", {x = 1});
  auto waits = builder.stage("waits", {x = 1});
  auto many = builder.stage("many", {x = 10 * machine.sms});
  for (auto* stage : {&slow, &waits, &many}) stage->resources({512, 128, 64 * 1024});
  builder.depends(waits(x), slow(x));
  for (auto const* name : {"slow", "waits", "many"}) builder.each_iteration(name);
  auto const loop = builder.build_loop();
  ASSERT_OK(loop);
  auto plan = plan_loop(*loop, machine, machine.sms);
  ASSERT_OK(plan);
  plan->operations = {0, 0, 0};
  for (auto const dealing : {Dealing::lists, Dealing::queue}) {
    RoleOptions options;
    options.dealing = dealing;
    options.chain.deadline_seconds = 0.01;
    auto chain = role_tiles::one_slow_tile(*plan, options);
    ASSERT_OK(chain);
    for (int round = 0; round < 20; ++round) {
      ASSERT_OK(chain->launch(nullptr, 4000));
      auto const stalled = chain->finish();
      ASSERT_FALSE(stalled);
      ASSERT_EQ(stalled.error().front().code, "E0520") << to_text(stalled.error());
      ASSERT_OK(chain->launch(nullptr, 20));
      ASSERT_OK(chain->finish());
    }
  }
}

TEST_F(RoleLaunch, ATileThatIsTooLateIsNamedAndTheNextLaunchIsRight) {
  for (auto const dealing : {Dealing::lists, Dealing::queue}) {
    auto const plan = plan_loop(loop_tiles::stencil_loop(12, block()), machine, 12);
    ASSERT_OK(plan);
    Line line(12);
    auto const stuck_at = device_copy(std::vector<int>{5});
    RoleOptions options;
    options.dealing = dealing;
    options.chain.deadline_seconds = 0.05;
    auto chain = role_tiles::stencil(*plan, line.stencil(0), stuck_at.get(), options);
    ASSERT_OK(chain);
    Stream const stream;
    ASSERT_OK(chain->launch(stream, 10));
    auto const stalled = chain->finish();
    ASSERT_FALSE(stalled);
    EXPECT_EQ(stalled.error().front().code, "E0520");
    EXPECT_THAT(stalled.error().front().message, HasSubstr("waits for step"));
    std::printf("%s\n", to_text(stalled.error()).c_str());
    int const never = -1;
    ASSERT_EQ(cudaMemcpy(stuck_at.get(), &never, sizeof never, cudaMemcpyHostToDevice), cudaSuccess);
    line.start_again();
    for (int const iterations : {9, 4}) {
      ASSERT_OK(chain->launch(stream, iterations));
      ASSERT_OK(chain->finish());
      line.step(iterations);
      ASSERT_EQ(line.found(iterations), line.now);
    }
  }
}

}  // namespace
}  // namespace tessera
