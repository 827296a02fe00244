// SPDX-License-Identifier: Apache-2.0
// A flow shared by several GPUs: the bits of one, also where a rank is late, and what is said of one that
// does not come.
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "lattice_boltzmann_gpu/on_device.hpp"
#include "lattice_boltzmann_gpu/plain.hpp"
#include "some_gpus.hpp"

namespace tessera::lattice_boltzmann {
namespace {

using gpu::ok;
using gpu::Select;
using testing::AllOf;
using testing::HasSubstr;

class Slabs : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs GPUs that reach each other's memory";
  }
  std::size_t wrong(SlabFlow& flow, Flow<float> const& wanted) const {
    return other_bits(flow_on_devices(flow, *gpus.group), wanted);
  }

  SomeGpus const& gpus = *SomeGpus::get();
};

Problem closed(Problem problem) {
  problem.faces[4] = problem.faces[5] = Face::wall;
  return problem;
}

TEST_F(Slabs, HaveTheBitsOfPlainSteps) {
  struct Case {
    Problem problem;
    int steps[2];
  };
  for (auto const& one : {Case{rough(29, 23, 31), {60, 41}}, Case{closed(rough(20, 21, 22)), {33, 20}},
                          Case{open_box(33, 18, 25), {50, 51}}, Case{open_box(5, 3, gpus.count()), {3, 4}},
                          Case{rough(64, 7, 9), {1, 100}}}) {
    SCOPED_TRACE(to_string(one.problem));
    auto made = SlabFlow::make(gpus.group, one.problem);
    ASSERT_OK(made);
    EXPECT_EQ(wrong(*made, plain(one.problem, 0)), 0u);
    int steps = 0;
    for (int const more : one.steps) {
      ASSERT_OK(made->run(gpus.all(), more));
      ASSERT_OK(made->finish());
      steps += more;
      ASSERT_EQ(wrong(*made, plain(one.problem, steps)), 0u) << steps << " steps";
    }
    ASSERT_OK(made->start_again());
    ASSERT_OK(made->run(gpus.all(), 10));
    ASSERT_OK(made->finish());
    EXPECT_EQ(wrong(*made, plain(one.problem, 10)), 0u) << "from the start again";
  }
}

TEST_F(Slabs, AreReplayedAsGraphs) {
  auto const problem = rough(21, 20, 19);
  auto made = SlabFlow::make(gpus.group, problem);
  ASSERT_OK(made);
  for (auto* const stream : gpus.all()) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  auto const odd = made->run(gpus.all(), 5);
  ASSERT_FALSE(odd);
  EXPECT_THAT(to_text(odd.error()), HasSubstr("E0569: a capture of 5 steps"));
  ASSERT_OK(made->run(gpus.all(), 6));
  // All end before one is made ready: that is not allowed beside a capture.
  PerRank<cudaGraph_t> graphs(gpus.count());
  for (int const rank : gpus.ranks()) ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
  PerRank<cudaGraphExec_t> replays(gpus.count());
  for (int const rank : gpus.ranks()) {
    Select const current(rank);
    ok(cudaGraphInstantiate(&replays[rank], graphs[rank], 0));
    ok(cudaGraphUpload(replays[rank], gpus.stream(rank)));
    ok(cudaGraphDestroy(graphs[rank]));
  }
  for (int i = 0; i < 20; ++i)
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      ok(cudaGraphLaunch(replays[rank], gpus.stream(rank)));
    }
  ASSERT_OK(made->finish());
  EXPECT_EQ(wrong(*made, plain(problem, 120)), 0u);
  for (auto* one : replays) ok(cudaGraphExecDestroy(one));
}

/// On the host's clock, in stream order.
void sleep_for(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

TEST_F(Slabs, LateWarpsAndLateRanksChangeNothing) {
  auto const problem = rough(50, 31, 12);
  for (unsigned late = 1; late <= 4; ++late) {
    SlabOptions options;
    options.disturbance.late = late;
    auto made = SlabFlow::make(gpus.group, problem, options);
    ASSERT_OK(made);
    ASSERT_OK(made->run(gpus.all(), 200));
    ASSERT_OK(made->finish());
    EXPECT_EQ(wrong(*made, plain(problem, 200)), 0u) << late;
  }
  std::mt19937 random(3);
  auto made = SlabFlow::make(gpus.group, problem);
  ASSERT_OK(made);
  for (int round = 0; round < 50; ++round) {
    Select const current(static_cast<int>(random() % gpus.streams.size()));
    int device = 0;
    ok(cudaGetDevice(&device));
    ok(cudaLaunchHostFunc(gpus.stream(device), sleep_for,
                          reinterpret_cast<void*>(std::uintptr_t{random() % 400})));
    ASSERT_OK(made->run(gpus.all(), 4));
  }
  ASSERT_OK(made->finish());
  EXPECT_EQ(wrong(*made, plain(problem, 200)), 0u) << "late ranks";
}

TEST_F(Slabs, HaveTheBitsOfOneGpuInALargeBox) {
  auto problem = taylor_green(256, 192, 96, 0.05, 0.55);
  for (auto& w : problem.velocity[2]) w = 0.02f;
  auto made = SlabFlow::make(gpus.group, problem);
  ASSERT_OK(made);
  ASSERT_OK(made->run(gpus.all(), 1000));
  ASSERT_OK(made->finish());
  Options options;
  options.variant = Variant::two_lattices;
  auto one = LatticeBoltzmann::make(problem, options);
  ASSERT_OK(one);
  ASSERT_OK(one->run(nullptr, 1000));
  ASSERT_OK(one->finish());
  EXPECT_EQ(wrong(*made, flow_on_device(*one)), 0u);
}

TEST_F(Slabs, ARankThatTellsNothingIsNamed) {
  auto const problem = rough(24, 24, 24);
  SlabOptions options;
  options.deadline_seconds = 0.05;
  options.disturbance.silent_rank = 1;
  options.disturbance.silent_from = 20;
  auto made = SlabFlow::make(gpus.group, problem, options);
  ASSERT_OK(made);
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(made->start_again());
    ASSERT_OK(made->run(gpus.all(), 40));
    auto const stalled = made->finish();
    ASSERT_FALSE(stalled) << "a rank was silent, and nobody waited for it";
    EXPECT_EQ(stalled.error().front().code, "E0582");
    EXPECT_THAT(to_text(stalled.error()),
                AllOf(HasSubstr("rank 0 waits for rank 1: steps of its cells beyond z = "),
                      HasSubstr("seen launch 20, expected 21")));
    if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    auto const lost = made->run(gpus.all(), 1);
    ASSERT_FALSE(lost);
    EXPECT_THAT(to_text(lost.error()), HasSubstr("call start_again()"));
    // So few steps that it is not silent.
    ASSERT_OK(made->start_again());
    ASSERT_OK(made->run(gpus.all(), 19));
    ASSERT_OK(made->finish());
    EXPECT_EQ(wrong(*made, plain(problem, 19)), 0u);
  }
}

TEST_F(Slabs, ThoseOfTheSameThreadHearOfAStallOnce) {
  SlabOptions options;
  options.deadline_seconds = 0.05;
  options.disturbance.silent_rank = 1;
  auto stalling = SlabFlow::make(gpus.group, rough(24, 24, 24), options);
  auto other = SlabFlow::make(gpus.group, rough(16, 16, 16));
  ASSERT_OK(stalling);
  ASSERT_OK(other);
  ASSERT_OK(stalling->run(gpus.all(), 4));
  for (int const rank : gpus.ranks()) ok(cudaStreamSynchronize(gpus.stream(rank)));
  auto const told = other->run(gpus.all(), 1);
  ASSERT_FALSE(told) << "steps behind a stall of another flow were enqueued, and nothing was said";
  EXPECT_EQ(told.error().front().code, "E0520");
  EXPECT_THAT(to_text(told.error()), HasSubstr("an earlier launch of a box of 24x24x24 cells"));
  ASSERT_OK(other->run(gpus.all(), 7));
  ASSERT_OK(other->finish());
  EXPECT_EQ(wrong(*other, plain(rough(16, 16, 16), 7)), 0u);
  EXPECT_FALSE(stalling->finish());
}

TEST_F(Slabs, WhatDoesNotFitIsRefused) {
  auto const thin = SlabFlow::make(gpus.group, open_box(8, 8, 1));
  ASSERT_FALSE(thin);
  EXPECT_THAT(to_text(thin.error()),
              HasSubstr("E0569: 1 plane along z for " + std::to_string(gpus.count()) + " GPUs"));
  auto made = SlabFlow::make(gpus.group, open_box(8, 8, 8));
  ASSERT_OK(made);
  auto const one = made->run({gpus.stream(0)}, 2);
  ASSERT_FALSE(one);
  EXPECT_THAT(to_text(one.error()),
              HasSubstr("E0569: 1 streams for " + std::to_string(gpus.count()) + " GPUs"));
  ok(cudaStreamBeginCapture(gpus.stream(0), cudaStreamCaptureModeThreadLocal));
  auto const half = made->run(gpus.all(), 2);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(gpus.stream(0), &graph));
  ok(cudaGraphDestroy(graph));
  ASSERT_FALSE(half);
  EXPECT_THAT(to_text(half.error()), HasSubstr("only some GPUs' are captured"));
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
