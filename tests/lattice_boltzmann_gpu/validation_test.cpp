// SPDX-License-Identifier: Apache-2.0
// Long runs on the GPU against what is known of flows. What was found is printed, and a property of the test.
#include <cmath>
#include <numbers>

#include "examples/10_driven_cavity/ghia.hpp"
#include "lattice_boltzmann_gpu/on_device.hpp"

namespace tessera::lattice_boltzmann {
namespace {

void report(char const* what, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  testing::Test::RecordProperty(what, text);
  std::printf("  %s: %s\n", what, text);
}

void run(LatticeBoltzmann& flow, long long steps) {
  auto const asked = flow.run(nullptr, steps), done = flow.finish();
  EXPECT_TRUE(asked) << (asked ? "" : to_text(asked.error()));
  EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
}

LatticeBoltzmann ran(Problem const& problem, Variant variant, long long steps) {
  Options options;
  options.variant = variant;
  auto made = LatticeBoltzmann::make(problem, options);
  EXPECT_TRUE(made) << (made ? "" : to_text(made.error()));
  run(*made, steps);
  return *made;
}

/// The largest change of the velocity along x in so many steps, over the lid's.
double change(LatticeBoltzmann& flow, long long steps) {
  auto const before = flow_on_device(flow).velocity[0];
  run(flow, steps);
  auto const after = flow_on_device(flow).velocity[0];
  float most = 0;
  for (std::size_t n = 0; n < after.size(); ++n) most = std::max(most, std::abs(after[n] - before[n]));
  return static_cast<double>(most) / flow.problem().lid[0];
}

TEST(LatticeBoltzmannValidation, CavitiesAreWithinTwoPercentOfGhiasTables) {
  for (double const reynolds : {100.0, 400.0}) {
    auto const problem = square_cavity(128, 2, 0.1, reynolds);
    // The lid crosses the cavity in 1280 steps.
    auto flow = ran(problem, Variant::chip_tokens, reynolds == 100 ? 40000 : 80000);
    EXPECT_LT(change(flow, 2000), 1e-4) << "not at rest yet";
    bool const slow = reynolds == 100;
    auto const found = flow_on_device(flow);
    double const off = off_from_ghia(problem, found.velocity[0], Line::upright,
                                     slow ? std::span<GhiasPoint const>(k_u_at_100) : k_u_at_400);
    double const off_v = off_from_ghia(problem, found.velocity[1], Line::level,
                                       slow ? std::span<GhiasPoint const>(k_v_at_100) : k_v_at_400);
    report(slow ? "off_at_100" : "off_at_400", off);
    report(slow ? "off_v_at_100" : "off_v_at_400", off_v);
    EXPECT_LT(off, 0.02) << "u, Reynolds number " << reynolds;
    EXPECT_LT(off_v, 0.02) << "v, Reynolds number " << reynolds;
  }
}

/// 1e5 steps, of a chip that is full, and from memory.
TEST(LatticeBoltzmannValidation, MassAndMomentumStayOverAHundredThousandSteps) {
  constexpr long long steps = 100000;
  auto problem = taylor_green(56, 42, 165, 0.05, 0.55);
  for (auto& w : problem.velocity[2]) w = 0.02f;
  for (auto const variant : {Variant::chip_tokens, Variant::in_place}) {
    Options options;
    options.variant = variant;
    auto made = LatticeBoltzmann::make(problem, options);
    ASSERT_OK(made);
    auto const before = totals_of(problem, flow_on_device(*made));
    run(*made, steps);
    auto const after = totals_of(problem, flow_on_device(*made));
    double const mass = std::abs(after.mass / before.mass - 1);
    double momentum = 0;
    for (int d = 0; d < 3; ++d)
      momentum = std::max(momentum, std::abs(after.momentum[d] - before.momentum[d]) / before.mass);
    report(variant == Variant::in_place ? "mass_in_place" : "mass_on_chip", mass);
    report(variant == Variant::in_place ? "momentum_in_place" : "momentum_on_chip", momentum);
    // The CPU, whose bits these are, finds 7.8e-7 and 8.8e-8.
    EXPECT_LT(mass, 2e-6);
    EXPECT_LT(momentum, 5e-7);
  }
}

/// The relative error of the decay of vortices, at a time that shrinks with the cell.
double error_of_decay(int edge, int steps, double speed) {
  double const tau = 0.8, viscosity = (tau - 0.5) / 3, k = 2 * std::numbers::pi / edge;
  auto const problem = taylor_green(edge, edge, 2, speed, tau);
  auto flow = ran(problem, Variant::chip_tokens, steps);
  auto const found = flow_on_device(flow);
  double const decay = std::exp(-2 * viscosity * k * k * steps);
  double off = 0, all = 0;
  for (std::size_t n = 0; n < found.density.size(); ++n)
    for (std::size_t d = 0; d < 2; ++d) {
      double const wanted = decay * static_cast<double>(problem.velocity[d][n]);
      double const here = static_cast<double>(found.velocity[d][n]);
      off += (here - wanted) * (here - wanted), all += wanted * wanted;
    }
  return std::sqrt(off / all);
}

TEST(LatticeBoltzmannValidation, VorticesDecayWithSecondOrder) {
  // Twice as fine: a quarter of the time step, half of the speed.
  double const coarse = error_of_decay(32, 240, 0.01), middle = error_of_decay(64, 960, 0.005),
               fine = error_of_decay(128, 3840, 0.0025);
  report("slope_of_vortices_coarse", std::log2(coarse / middle));
  report("slope_of_vortices_fine", std::log2(middle / fine));
  EXPECT_NEAR(std::log2(coarse / middle), 2, 0.25);
  EXPECT_NEAR(std::log2(middle / fine), 2, 0.25);
}

double error_of_channel(int height) {
  double const tau = 0.9, viscosity = (tau - 0.5) / 3;
  auto const problem = channel(4, height, 4, 0.05, tau);
  auto const steps = static_cast<long long>(20 * height * height / (viscosity * 9.8));
  auto flow = ran(problem, Variant::chip_tokens, steps);
  auto const found = flow_on_device(flow).velocity[0];
  double off = 0;
  for (int y = 0; y < height; ++y) {
    double const at = (y + 0.5) / height, wanted = 0.05 * 4 * at * (1 - at);
    off =
        std::max(off, std::abs(static_cast<double>(found[static_cast<std::size_t>(4 * y)]) - wanted) / 0.05);
  }
  return off;
}

TEST(LatticeBoltzmannValidation, AChannelIsAParabolaOfSecondOrder) {
  double const coarse = error_of_channel(8), fine = error_of_channel(16);
  report("slope_of_channel", std::log2(coarse / fine));
  EXPECT_NEAR(std::log2(coarse / fine), 2, 0.2) << coarse << " " << fine;
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
