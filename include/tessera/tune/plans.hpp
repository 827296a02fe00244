// SPDX-License-Identifier: Apache-2.0
// Plans without a measurement of one's own: what a cache has, or what the libraries offer; and their names.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "../describe/workload.hpp"
#include "../measure/machine_profile.hpp"
#include "cache.hpp"

namespace tessera {

/// Every operator by a library's kernel, one after the other; by the first kernel of the registry where no
/// library has one. What a user has without a tuner. E0305 for an operator without a kernel.
Expected<Plan> library_plan(OperatorGraph const& graph, Registry const& kernels,
                            MachineProfile const& machine);

/// What was tuned for this workload, or for it with other rows (nearest()), resized: the first that can be
/// and that `runs`, if there is such a test. Nothing if the cache has none.
std::optional<Plan> tuned_plan(TuneCache const& cache, TuneKey const& key, OperatorGraph const& graph,
                               Registry const& kernels, MachineProfile const& machine,
                               std::function<bool(Plan const&)> const& runs = {});

/// A plan in one line: kernels, variants, orders, grids, policies and switches. Of what a tuner varies it
/// leaves nothing out: the same text, the same launches.
std::string plan_name(Plan const& plan);

}  // namespace tessera
