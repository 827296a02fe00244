// SPDX-License-Identifier: Apache-2.0
// The plans that a tuner measures well: found by simulation and by a quick measurement of each. Pure but for
// the measurement, which is a function.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../describe/workload.hpp"
#include "price.hpp"

namespace tessera {

/// A plan that takes part.
struct TuneCandidate {
  std::string name;   ///< plan_name()
  std::string group;  ///< what it shows; of each group some are always measured well
  bool baseline = false;
  Plan plan;
};

/// Words for StagePlan::variant of a launch of the plan; may be empty.
using PlanVariants = std::function<std::vector<std::string>(Plan const&, int launch)>;

/// What a search came to.
struct Found {
  std::vector<TuneCandidate> candidates;
  std::vector<double> times;       ///< of each, microseconds; infinite for those that cannot run
  std::vector<StagePrice> prices;  ///< measured, of a chain whose tiles are given
  int tried = 0;                   ///< measurements
};

/// Any chain whose tiles are given: its stages are priced by measurement, and the plans of every mechanism
/// and policy that simulation then promises most of are measured. Those in stream order are baselines. Where
/// the chain cannot be measured in stream order, simulation goes by the stages' bytes and operations.
Expected<Found> search(CheckedPipeline const& checked, MachineProfile const& machine,
                       Stopwatch const& measure);

/// Operators, by registered kernels: each kernel alone in several orders and grids, then chains of the
/// fastest in every way to overlap them, and what simulation promises most of. Plans of library kernels are
/// baselines; stream order where there are none. E0305 without a kernel for an operator; what `measure`
/// refused first where no kernel of an operator can be measured.
Expected<Found> search(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                       PlanVariants const& variants, Stopwatch const& measure);

}  // namespace tessera
