// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/progress.hpp"

#include <fmt/format.h>

namespace tessera::lattice_boltzmann {
namespace {

/// Are the lattices that steps go between fixed in a graph? A loop of neighbours reads in memory which is
/// first.
bool fixed_in_a_graph(Variant variant) { return !on_chip(variant) && variant != Variant::neighbours; }

Expected<void> not_lost(Progress const& progress) {
  if (!progress.lost) return {};
  return refuse(does_not_fit("the flow is lost: a launch before did not come to its end",
                             "call start_again(), which begins anew"));
}

Expected<void> even(Progress const& progress, Variant variant, char const* what) {
  if (progress.steps_done % 2 == 0) return {};
  return refuse(does_not_fit(
      fmt::format("a capture of {} behind {} steps as {}", what, progress.steps_done, to_string(variant)),
      "capture behind an even number of steps: the graph keeps where the cells were"));
}

}  // namespace

Expected<void> Progress::may_run(Variant variant, long long steps, bool captured) const {
  if (steps < 0 || steps > k_most_steps)
    return refuse(does_not_fit(fmt::format("{} steps", steps), "ask for 0 to 1,000,000,000"));
  if (auto ok = not_lost(*this); !ok) return ok;
  bool const odd = steps % 2 == 1;
  if (captured && odd && !on_chip(variant))
    return refuse(
        does_not_fit(fmt::format("a capture of {} steps as {}", steps, to_string(variant)),
                     "capture an even number: an odd one ends in another lattice than it began in"));
  if (captured && fixed_in_a_graph(variant)) return even(*this, variant, "steps");
  if (!captured && odd && keeps_even)
    return refuse(
        does_not_fit(fmt::format("{} steps as {} where something was captured", steps, to_string(variant)),
                     "ask for an even number: graphs keep where the cells were, which an odd one changes"));
  return {};
}

Expected<void> Progress::may_write(Variant variant, bool captured) const {
  if (auto ok = not_lost(*this); !ok) return ok;
  return captured && !on_chip(variant) ? even(*this, variant, "a flow that is written") : Expected<void>();
}

Expected<void> Progress::may_start_again(bool captured) const {
  if (!captured) return {};
  return refuse(does_not_fit("a capture of a flow's start", "start again outside of it"));
}

void Progress::ran(Variant variant, long long steps, bool captured) {
  steps_done += steps;
  keeps_even = keeps_even || (captured && fixed_in_a_graph(variant));
}

void Progress::written(Variant variant, bool captured) {
  keeps_even = keeps_even || (captured && !on_chip(variant));
}

}  // namespace tessera::lattice_boltzmann
