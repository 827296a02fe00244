// SPDX-License-Identifier: Apache-2.0
// A block that tells its neighbours nothing: what is said, that the flow is lost, and how it begins anew.
#include "gpu/told_flag.hpp"
#include "lattice_boltzmann_gpu/silent.hpp"

namespace tessera::lattice_boltzmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What a variant says: who waits, and who is missing where that is known. Tokens and semaphores say that
/// data are missing.
class SilentBlock : public testing::TestWithParam<Variant> {};

TEST_P(SilentBlock, IsNamedAndTheFlowBeginsAgain) {
  Options options;
  options.variant = GetParam();
  // Each of 27 tiles waits for all others, so that nobody is named who is not silent.
  bool const loop = GetParam() == Variant::neighbours;
  auto const problem = loop ? open_box(3, 3, 3) : rough(24, 24, 24);
  expect_that_a_silent_block_is_named(
      problem, options, [&](LatticeBoltzmann const& flow) -> testing::Matcher<std::string> {
        auto const place = silent_place(flow.choice().cut);
        switch (GetParam()) {
          case Variant::neighbours: return AllOf(HasSubstr("; missing step_0"), HasSubstr(place));
          case Variant::barrier:
            return AllOf(HasSubstr("waits at the barrier of all blocks"),
                         HasSubstr("missing block " + std::to_string(k_silent_block)));
          case Variant::chip_barrier:
          case Variant::chip_split_barrier:
            return AllOf(HasSubstr("step_0 tile ("), HasSubstr("waits at the barrier of all blocks"),
                         HasSubstr("missing tile " + place));
          default: return AllOf(HasSubstr("step_0 tile ("), HasSubstr("waits for data"));
        }
      });
}

// Launches of a step wait for nothing inside of a launch, and cooperative groups' barrier has no deadline.
INSTANTIATE_TEST_SUITE_P(LatticeBoltzmannStall, SilentBlock,
                         testing::Values(Variant::neighbours, Variant::barrier, Variant::chip_tokens,
                                         Variant::chip_semaphores, Variant::chip_split_barrier,
                                         Variant::chip_barrier, Variant::chip_clusters),
                         [](auto const& one) { return to_string(one.param); });

/// Something else that this thread launched has stalled: that is said once, and the flow is what it was.
TEST(LatticeBoltzmannStall, OfSomethingElseLosesNoFlow) {
  auto const problem = rough(24, 24, 24);
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
    EXPECT_EQ(other_bits(flow_on_device(*made), plain(problem, 20)), 0u);
  }
}

/// Nobody has called finish(): a flow that is written, or begun again, is the first to hear of it.
TEST(LatticeBoltzmannStall, IsSaidBeforeAFlowIsWritten) {
  auto const problem = rough(24, 24, 24);
  Options options;
  options.variant = Variant::chip_tokens;
  auto made = LatticeBoltzmann::make(problem, with_a_silent_block(options));
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
