// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_simulation.hpp"

#include <algorithm>
#include <functional>
#include <tessera/simulate/simulate.hpp>

namespace tessera::lattice_boltzmann {
namespace {

/// Iterations behind which one is like the other, and as many more: fewer where each has many blocks.
constexpr int k_iterations = 4;
constexpr std::int64_t k_many_blocks = 20000;
/// Of a larger box a part is simulated, and time grows in proportion: some hundred waves. 512 x 512 x 512 has
/// fewer.
constexpr std::int64_t k_most_blocks = 525'000;

Expected<double> total_ns(Problem const& problem, Variant variant, MachineProfile const& machine,
                          int iterations, StepFit const& fit) {
  auto const plan = plan_variant(problem, variant, machine, iterations, fit);
  if (!plan) return tl::make_unexpected(plan.error());
  auto const timeline = simulate(*plan, machine_of(problem, variant, machine, fit), {.record_tiles = false});
  if (!timeline) return tl::make_unexpected(timeline.error());
  return static_cast<double>(timeline->end) / 1e3;
}

}  // namespace

Expected<double> simulate_step_ns(Problem const& problem, Variant variant, MachineProfile const& machine,
                                  StepFit const& fit) {
  auto const loop = describe_variant(problem, variant, machine, fit);
  if (!loop) return tl::make_unexpected(loop.error());
  auto const blocks = loop->body.stages.front().tiles();
  if (blocks > k_most_blocks) {
    auto part = problem;
    auto& longest =
        std::max({std::ref(part.width), std::ref(part.height), std::ref(part.depth)}, [](int const& a,
                                                                                         int const& b) {
          return a < b;
        }).get();
    longest /= static_cast<int>((blocks + k_most_blocks - 1) / k_most_blocks);
    auto const times = static_cast<double>(problem.size()) / static_cast<double>(part.size());
    return simulate_step_ns(part, variant, machine, fit).map([&](double ns) { return ns * times; });
  }
  int const few = blocks > k_many_blocks ? 2 : k_iterations;
  auto const first = total_ns(problem, variant, machine, few, fit);
  if (!first) return first;
  auto const all = total_ns(problem, variant, machine, 2 * few, fit);
  if (!all) return all;
  return (*all - *first) / (few * steps_of_iteration(variant));
}

}  // namespace tessera::lattice_boltzmann
