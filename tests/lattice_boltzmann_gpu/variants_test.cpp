// SPDX-License-Identifier: Apache-2.0
// All variants against plain steps on the CPU: equal bits, since the order of operations is the same.
#include <cmath>
#include <cstdlib>
#include <tessera/measure/machine_json.hpp>

#include "gpu/graph.hpp"
#include "gpu/stream.hpp"
#include "lattice_boltzmann_gpu/on_device.hpp"
#include "lattice_boltzmann_gpu/plain.hpp"

namespace tessera::lattice_boltzmann {
namespace {

class Variants : public testing::TestWithParam<Variant> {};

TEST_P(Variants, HaveTheBitsOfPlainSteps) {
  struct Case {
    Problem problem;
    int steps[2];
  };
  Case const cases[] = {{rough(29, 23, 31), {60, 41}},
                        {open_box(33, 18, 25), {50, 51}},
                        {open_box(5, 3, 1), {3, 4}},
                        {rough(64, 7, 9), {1, 100}}};
  for (auto const& one : cases) {
    SCOPED_TRACE(to_string(one.problem));
    Options options;
    options.variant = GetParam();
    auto made = LatticeBoltzmann::make(one.problem, options);
    ASSERT_OK(made);
    EXPECT_EQ(other_bits(flow_on_device(*made), plain(one.problem, 0)), 0u);
    int steps = 0;
    for (int const more : one.steps) {
      ASSERT_OK(made->run(nullptr, more));
      ASSERT_OK(made->finish());
      steps += more;
      ASSERT_EQ(other_bits(flow_on_device(*made), plain(one.problem, steps)), 0u) << steps << " steps";
    }
    ASSERT_OK(made->start_again(nullptr));
    ASSERT_OK(made->run(nullptr, 10));
    ASSERT_OK(made->finish());
    EXPECT_EQ(other_bits(flow_on_device(*made), plain(one.problem, 10)), 0u) << "from the start again";
  }
}

TEST_P(Variants, AreReplayedAsGraphs) {
  auto const problem = rough(21, 20, 19);
  Options options;
  options.variant = GetParam();
  options.disturbance.plain_barrier = std::getenv("TESSERA_UNDER_RACECHECK") != nullptr;
  auto made = LatticeBoltzmann::make(problem, options);
  ASSERT_OK(made);
  cudaStream_t stream;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  gpu::ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  if (!on_chip(GetParam())) {
    auto const odd = made->run(stream, 5);
    ASSERT_FALSE(odd);
    EXPECT_THAT(to_text(odd.error()), testing::HasSubstr("E0569: a capture of 5 steps"));
  }
  auto const again = made->start_again(stream);
  ASSERT_FALSE(again);
  EXPECT_THAT(to_text(again.error()), testing::HasSubstr("E0569: a capture of a flow's start"));
  ASSERT_OK(made->run(stream, 6));
  cudaGraph_t graph;
  gpu::ok(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay;
  gpu::ok(cudaGraphInstantiate(&replay, graph, 0));
  bool const keeps_even = !on_chip(GetParam()) && GetParam() != Variant::neighbours;
  if (keeps_even) {
    auto const odd = made->run(stream, 5);
    ASSERT_FALSE(odd);
    EXPECT_THAT(to_text(odd.error()), testing::HasSubstr("E0569: 5 steps as"));
  }
  for (int i = 0; i < 5; ++i) gpu::ok(cudaGraphLaunch(replay, stream));
  gpu::ok(cudaStreamSynchronize(stream));
  ASSERT_OK(made->finish());
  EXPECT_EQ(other_bits(flow_on_device(*made, stream), plain(problem, 30)), 0u);
  gpu::ok(cudaGraphExecDestroy(replay));
  gpu::ok(cudaGraphDestroy(graph));
  gpu::ok(cudaStreamDestroy(stream));
}

TEST_P(Variants, LateWarpsChangeNothing) {
  auto const problem = rough(30, 31, 32);
  for (unsigned late = 1; late <= 4; ++late) {
    Options options;
    options.variant = GetParam();
    options.disturbance.late = late;
    auto made = LatticeBoltzmann::make(problem, options);
    ASSERT_OK(made);
    ASSERT_OK(made->run(nullptr, 101));
    ASSERT_OK(made->finish());
    EXPECT_EQ(other_bits(flow_on_device(*made), plain(problem, 101)), 0u) << late;
  }
}

std::string name_of(testing::TestParamInfo<Variant> const& info) { return to_string(info.param); }
INSTANTIATE_TEST_SUITE_P(LatticeBoltzmann, Variants, testing::ValuesIn(k_variants), name_of);

/// A chip that is full, 60 times as many steps.
TEST(LatticeBoltzmann, AFullChipKeepsMassAndMomentum) {
  auto problem = taylor_green(56, 42, 165, 0.05, 0.55);
  for (auto& w : problem.velocity[2]) w = 0.02f;
  Options options;
  options.variant = Variant::chip_tokens;
  auto made = LatticeBoltzmann::make(problem, options);
  ASSERT_OK(made);
  auto const before = totals_of(problem, flow_on_device(*made));
  ASSERT_OK(made->run(nullptr, 6000));
  ASSERT_OK(made->finish());
  auto const after = totals_of(problem, flow_on_device(*made));
  EXPECT_NEAR(after.mass / before.mass, 1, 1e-6);
  for (int d = 0; d < 3; ++d) EXPECT_NEAR(after.momentum[d], before.momentum[d], 1e-7 * before.mass) << d;
  // Two lattices compute the same.
  options.variant = Variant::two_lattices;
  auto other = LatticeBoltzmann::make(problem, options);
  ASSERT_OK(other);
  ASSERT_OK(other->run(nullptr, 6000));
  ASSERT_OK(other->finish());
  EXPECT_EQ(other_bits(flow_on_device(*made), flow_on_device(*other)), 0u);
}

/// A group of one is its own neighbour.
TEST(LatticeBoltzmann, ASlabOfOneGpuHasTheBitsOfPlainSteps) {
  auto const group = PeerGroup::make({0});
  ASSERT_OK(group);
  for (auto const& problem : {rough(29, 23, 31), open_box(5, 3, 1), open_box(33, 18, 25)}) {
    auto made = SlabFlow::make(*group, problem);
    ASSERT_OK(made);
    ASSERT_OK(made->run({nullptr}, 41));
    ASSERT_OK(made->finish());
    EXPECT_EQ(other_bits(flow_on_devices(*made, **group), plain(problem, 41)), 0u) << to_string(problem);
  }
}

/// On the chip and from memory, with a machine's figures and without.
TEST(LatticeBoltzmann, TheChosenVariantRuns) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  for (auto const& problem : {rough(16, 16, 16), rough(128, 128, 32)})
    for (auto const& profile : {MachineProfile{}, *h200}) {
      Options options;
      options.machine = profile;
      auto made = LatticeBoltzmann::make(problem, options);
      ASSERT_OK(made);
      std::printf("%s: %s, %s\n", to_string(problem).c_str(), to_string(made->choice().variant).c_str(),
                  made->choice().reason.c_str());
      ASSERT_OK(made->run(nullptr, 7));
      ASSERT_OK(made->finish());
      EXPECT_EQ(other_bits(flow_on_device(*made), plain(problem, 7)), 0u);
    }
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
