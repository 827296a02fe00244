// SPDX-License-Identifier: Apache-2.0
// Plans chosen by simulation: what `tessera plan` prints, `tessera run --planned` runs and the benchmarks
// call "as planned".
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../plan/choose.hpp"
#include "simulate.hpp"

namespace tessera {

/// Told each candidate's simulated microseconds, for who wants to show how far the search is.
using PriceObserver = std::function<void(double us)>;

/// rank() with simulate() as the price, for all candidates at one clock: on a machine with a power limit that
/// which the best plans in stream order share in turns. Candidates are measured in turns, and a model runs a
/// chain in turns with all its others, so that a chain's own power hardly sets its clock. Refuses as rank().
Expected<std::vector<Plan>> rank_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                               MachineProfile const& machine, PlanOptions const& options = {},
                                               PriceObserver const& observer = {});
Expected<std::vector<Plan>> rank_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                               PlanOptions const& options = {},
                                               PriceObserver const& observer = {});

/// What rank_by_simulation() takes, in blocks that it simulates and in other work that lasts as long, by an
/// estimate. Beyond this many, some two seconds, it refuses to begin (E0504).
constexpr std::int64_t k_most_work_of_search = 10'000'000;
Expected<std::int64_t> work_of_search(OperatorGraph const& graph, Registry const& kernels,
                                      MachineProfile const& machine);
std::int64_t work_of_search(CheckedPipeline const& checked, MachineProfile const& machine,
                            PlanOptions const& options = {});

/// The first of rank_by_simulation().
Expected<Plan> choose_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                    MachineProfile const& machine, PlanOptions const& options = {},
                                    PriceObserver const& observer = {});
Expected<Plan> choose_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                    PlanOptions const& options = {}, PriceObserver const& observer = {});

}  // namespace tessera
