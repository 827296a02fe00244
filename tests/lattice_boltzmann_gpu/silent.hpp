// SPDX-License-Identifier: Apache-2.0
// A flow one of whose blocks tells nobody anything from some step of a launch on.
#pragma once

#include <string>

#include "lattice_boltzmann_gpu/on_device.hpp"
#include "lattice_boltzmann_gpu/plain.hpp"

namespace tessera::lattice_boltzmann {

constexpr int k_silent_block = 5;
constexpr int k_silent_from = 20;

inline Options with_a_silent_block(Options options) {
  options.deadline_seconds = 0.05;
  options.disturbance.silent_block = k_silent_block;
  options.disturbance.silent_from = k_silent_from;
  return options;
}

/// "(1, 0, 1)": the silent block's place.
inline std::string silent_place(ChipCut const& cut) {
  ChipBlock const block(cut, k_silent_block);
  return "(" + std::to_string(block.own[0]) + ", " + std::to_string(block.own[1]) + ", " +
         std::to_string(block.own[2]) + ")";
}

/// Twice: what 40 steps say, that the flow is lost then, and 19 steps from the start again, so few that the
/// block is not silent. `says`: what the report must have, by the flow.
template <class Says>
void expect_that_a_silent_block_is_named(Problem const& problem, Options const& options, Says const& says) {
  auto made = LatticeBoltzmann::make(problem, with_a_silent_block(options));
  ASSERT_OK(made);
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(made->start_again(nullptr));
    ASSERT_OK(made->run(nullptr, 2 * k_silent_from));
    auto const stalled = made->finish();
    ASSERT_FALSE(stalled) << "a block was silent, and nobody waited for it";
    EXPECT_EQ(stalled.error().front().code, "E0520");
    EXPECT_THAT(to_text(stalled.error()), says(*made));
    if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    auto const lost = [](Expected<void> const& asked) {
      return !asked && asked.error().front().code == "E0569" &&
             to_text(asked.error()).find("call start_again()") != std::string::npos;
    };
    EXPECT_TRUE(lost(made->run(nullptr, 1))) << "steps of a flow that is lost";
    gpu::DeviceBuffer<float> density(static_cast<std::size_t>(problem.size()));
    EXPECT_TRUE(lost(made->write(nullptr, {density.get(), {}}))) << "a flow that is lost was written";
    ASSERT_OK(made->start_again(nullptr));
    ASSERT_OK(made->run(nullptr, k_silent_from - 1));
    ASSERT_OK(made->finish());
    EXPECT_EQ(other_bits(flow_on_device(*made), plain(problem, k_silent_from - 1)), 0u);
  }
}

}  // namespace tessera::lattice_boltzmann
