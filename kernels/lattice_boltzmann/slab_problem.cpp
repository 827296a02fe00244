// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/slab_problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/lattice_boltzmann/step_plan.hpp"

namespace tessera::lattice_boltzmann {

long long memory_of_slab(Problem const& problem, int ranks) {
  long long most = 0;
  for (int rank = 0; rank < ranks; ++rank)
    most = std::max<long long>(most, planes_of(problem.depth, ranks, rank).rows());
  // As a box of as many planes with those beyond its ends.
  return memory_of(problem, Variant::two_lattices) / problem.depth * (most + k_ends);
}

Expected<void> check_shared(Problem const& problem, int ranks) {
  if (ranks <= problem.depth) return {};
  return refuse(does_not_fit(
      fmt::format("{} plane{} along z for {} GPUs", problem.depth, problem.depth == 1 ? "" : "s", ranks),
      "take no more GPUs than planes"));
}

Expected<void> check_slabs(Problem const& problem, int ranks, long long free_bytes) {
  if (auto ok = check_shared(problem, ranks); !ok) return ok;
  auto const needed = memory_of_slab(problem, ranks);
  if (needed <= free_bytes) return {};
  auto const gib = [](long long bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return refuse(
      does_not_fit(fmt::format("{} needs {:.2f} GiB of memory on each of {} GPUs, and {:.2f} GiB are free",
                               to_string(problem), gib(needed), ranks, gib(free_bytes)),
                   "take more GPUs, or ask for fewer cells"));
}

}  // namespace tessera::lattice_boltzmann
