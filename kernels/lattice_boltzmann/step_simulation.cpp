// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_simulation.hpp"

#include <algorithm>
#include <iterator>
#include <tessera/simulate/simulate.hpp>

namespace tessera::lattice_boltzmann {
namespace {

/// Iterations behind which one is like the other, and as many more: fewer where each has many blocks.
constexpr int k_iterations = 4;
constexpr std::int64_t k_many_blocks = 20000;
/// Of a larger box a part is simulated, and time grows in proportion: some hundred waves. 512 x 512 x 512 has
/// fewer.
constexpr std::int64_t k_most_blocks = 525'000;

/// What an iteration of many takes, where so many take `total_ns(iterations)`.
template <class Total>
Expected<double> further_ns(Pipeline const& iteration, Total const& total_ns) {
  std::int64_t tiles = 0;
  for (auto const& stage : iteration.stages) tiles = std::max(tiles, stage.tiles());
  int const few = tiles > k_many_blocks ? 2 : k_iterations;
  Expected<double> const first = total_ns(few);
  if (!first) return first;
  Expected<double> const all = total_ns(2 * few);
  if (!all) return all;
  return (*all - *first) / few;
}

Expected<double> total_ns(Expected<Plan> const& plan, MachineProfile const& machine,
                          SimulateOptions options = {}) {
  if (!plan) return tl::make_unexpected(plan.error());
  options.record_tiles = false;
  auto const timeline = simulate(*plan, machine, options);
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
    int* const edges[] = {&part.width, &part.height, &part.depth};
    auto* const longest = *std::max_element(std::begin(edges), std::end(edges),
                                            [](int const* a, int const* b) { return *a < *b; });
    *longest /= static_cast<int>((blocks + k_most_blocks - 1) / k_most_blocks);
    auto const times = static_cast<double>(problem.size()) / static_cast<double>(part.size());
    return simulate_step_ns(part, variant, machine, fit).map([&](double ns) { return ns * times; });
  }
  auto const of = machine_of(problem, variant, machine, fit);
  return further_ns(loop->body,
                    [&](int iterations) {
                      return total_ns(plan_variant(problem, variant, machine, iterations, fit), of);
                    })
      .map([&](double ns) { return ns / steps_of_iteration(variant); });
}

Expected<double> simulate_slabs_ns(Problem const& problem, int ranks, MachineProfile const& machine,
                                   StepFit const& fit) {
  auto const link = link_of_slabs(problem, machine);
  if (!link) return tl::make_unexpected(link.error());
  auto const loop = describe_slabs(problem, ranks);
  if (!loop) return tl::make_unexpected(loop.error());
  auto const of = machine_of_slabs(problem, ranks, machine, *link, fit);
  return further_ns(loop->body, [&](int iterations) {
    SimulateOptions options;
    options.seen_later_ns.assign(loop->body.stages.size() * static_cast<std::size_t>(iterations),
                                 link->later_ns);
    return total_ns(plan_slabs(problem, ranks, machine, iterations, fit), of, options);
  });
}

}  // namespace tessera::lattice_boltzmann
