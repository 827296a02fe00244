// SPDX-License-Identifier: Apache-2.0
// A block that tells its neighbours nothing: what is said, that the flow is lost, and how it begins anew.
#include "gpu/told_flag.hpp"
#include "lattice_boltzmann/rough.hpp"
#include "lattice_boltzmann_gpu/on_device.hpp"

namespace tessera::lattice_boltzmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LatticeBoltzmannStall, NamesATileAndIsOver) {
  auto const problem = rough(24, 24, 24);
  for (auto const variant : {Variant::chip_tokens, Variant::chip_semaphores, Variant::chip_split_barrier,
                             Variant::chip_clusters}) {
    SCOPED_TRACE(to_string(variant));
    Options options;
    options.variant = variant;
    options.deadline_seconds = 0.05;
    options.disturbance.silent_block = 5;
    options.disturbance.silent_from = 20;
    auto made = LatticeBoltzmann::make(problem, options);
    ASSERT_OK(made);
    for (int round = 0; round < 2; ++round) {
      ASSERT_OK(made->start_again(nullptr));
      ASSERT_OK(made->run(nullptr, 40));
      auto const stalled = made->finish();
      ASSERT_FALSE(stalled) << "a block was silent, and nobody waited for it";
      EXPECT_EQ(stalled.error().front().code, "E0520");
      if (variant != Variant::chip_split_barrier) {
        EXPECT_THAT(to_text(stalled.error()), AllOf(HasSubstr("step_0 tile ("), HasSubstr("waits for data")));
      }
      if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
      auto const lost = [](Expected<void> const& asked) {
        return !asked && asked.error().front().code == "E0569" &&
               to_text(asked.error()).find("call start_again()") != std::string::npos;
      };
      EXPECT_TRUE(lost(made->run(nullptr, 1))) << "steps of a flow that is lost";
      gpu::DeviceBuffer<float> density(static_cast<std::size_t>(problem.size()));
      EXPECT_TRUE(lost(made->write(nullptr, {density.get(), {}}))) << "a flow that is lost was written";
      // So few steps that it is not silent.
      ASSERT_OK(made->start_again(nullptr));
      ASSERT_OK(made->run(nullptr, 19));
      ASSERT_OK(made->finish());
      Reference<float> reference(problem);
      for (int step = 0; step < 19; ++step) reference.step();
      EXPECT_EQ(other_bits(flow_on_device(*made), reference.flow()), 0u);
    }
  }
}

/// Something else that this thread launched has stalled: that is said once, and the flow is what it was.
TEST(LatticeBoltzmannStall, OfSomethingElseLosesNoFlow) {
  auto const problem = rough(24, 24, 24);
  Reference<float> reference(problem);
  for (int step = 0; step < 20; ++step) reference.step();
  gpu::ToldFlag neighbour;
  ASSERT_EQ(neighbour.make("a neighbour"), cudaSuccess);
  neighbour.launched();
  for (auto const variant :
       {Variant::chip_tokens, Variant::barrier, Variant::neighbours, Variant::two_lattices}) {
    SCOPED_TRACE(to_string(variant));
    Options options;
    options.variant = variant;
    auto made = LatticeBoltzmann::make(problem, options);
    ASSERT_OK(made);
    ASSERT_OK(made->run(nullptr, 10));
    for (bool const by_finish : {false, true}) {
      __atomic_store_n(neighbour.address(), 1u, __ATOMIC_RELEASE);
      auto const refused = by_finish ? made->finish() : made->run(nullptr, 10);
      ASSERT_FALSE(refused);
      EXPECT_THAT(to_text(refused.error()), HasSubstr("an earlier launch of a neighbour gave up"));
      neighbour.lower();
      if (!by_finish) ASSERT_OK(made->run(nullptr, 10));
    }
    ASSERT_OK(made->finish());
    EXPECT_EQ(other_bits(flow_on_device(*made), reference.flow()), 0u);
  }
}

/// Nobody has called finish(): a flow that is written, or begun again, is the first to hear of it.
TEST(LatticeBoltzmannStall, IsSaidBeforeAFlowIsWritten) {
  auto const problem = rough(24, 24, 24);
  Options options;
  options.variant = Variant::chip_tokens;
  options.deadline_seconds = 0.05;
  options.disturbance.silent_block = 5;
  options.disturbance.silent_from = 20;
  auto made = LatticeBoltzmann::make(problem, options);
  ASSERT_OK(made);
  gpu::DeviceBuffer<float> density(static_cast<std::size_t>(problem.size()));
  for (bool const writes : {true, false}) {
    ASSERT_OK(made->run(nullptr, 40));
    gpu::ok(cudaDeviceSynchronize());
    EXPECT_TRUE(made->stalled());
    auto const said = writes ? made->write(nullptr, {density.get(), {}}) : made->start_again(nullptr);
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().front().code, "E0520");
    EXPECT_THAT(to_text(said.error()), HasSubstr("waits for data"));
    EXPECT_FALSE(made->stalled());
    EXPECT_FALSE(made->write(nullptr, {density.get(), {}})) << "a flow that is lost was written";
    ASSERT_OK(made->start_again(nullptr));
    ASSERT_OK(made->run(nullptr, 19));
    ASSERT_OK(made->write(nullptr, {density.get(), {}}));
    ASSERT_OK(made->finish());
    ASSERT_OK(made->start_again(nullptr));
  }
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
