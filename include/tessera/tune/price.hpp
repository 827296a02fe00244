// SPDX-License-Identifier: Apache-2.0
// Prices of stages that nothing is known of but how long they take: measured in their chain, as times of a
// block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../check/check.hpp"
#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"

namespace tessera {

/// Microseconds of a launch of the plan, launched again and again; infinite where a wait gave up. An error
/// where it cannot be launched.
using Stopwatch = std::function<Expected<double>(Plan const&)>;

/// What a stage was measured to take, and what that makes of its blocks.
struct StagePrice {
  std::string stage;
  double us = 0;        ///< that it adds, in stream order, to the stages before it
  double few_us = 0;    ///< the same with no more blocks than SMs; `us` where it has no more
  double tiles_us = 0;  ///< what it adds where it waits for tiles of the stages before, launched early; 0:
                        ///< not measured
  double guess_us = 0;  ///< what simulation had said of `us`, from bytes and operations
  BlockTime block;      ///< with which simulation says `us` and `few_us`
};

/// Measures the chain's first stage, its first two, and so on in stream order, and each time the last stage
/// once more with no more blocks than the machine has SMs (fewer tiles along its slowest dimensions), and all
/// of them once more with early launches that wait for tiles, under the policies of the fewest waits. A
/// stage's price is the time of a block with which simulation takes as long as was measured. Stages before
/// the first that cannot be measured have one; `Diagnostics` where that is the first of all.
Expected<std::vector<StagePrice>> price_stages(CheckedPipeline const& checked, MachineProfile const& machine,
                                               Stopwatch const& measure);

/// The chain with these prices in its stages.
Pipeline with_prices(Pipeline pipeline, std::vector<StagePrice> const& prices);

}  // namespace tessera
