// SPDX-License-Identifier: Apache-2.0
// From a description to a plan: enumerate, rule out, price, choose, explain.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../check/check.hpp"
#include "../describe/workload.hpp"
#include "../measure/machine_profile.hpp"
#include "../timeline.hpp"
#include "plan.hpp"

namespace tessera {

struct PlanOptions {
  std::vector<Mechanism> mechanisms;  ///< empty: all that the machine has
  std::vector<std::string> policies;  ///< empty: all generated; else only these names
  bool all_optimizations = true;      ///< false: neither W, R, T nor plain store (the paper's "vanilla")
  int max_priced = 0;                 ///< 0: no limit
  /// The work is launched back to back, time and again, so that a plan's first launch may start early too
  /// (LaunchStart::early): every candidate whose first kernel can does.
  bool chained = false;
  int keep = 1;  ///< how many plans rank() returns at most
};

/// What a candidate costs: Timeline::end and who limits it. simulate() is one, a measured run another;
/// the planner knows neither. Called with candidates whose progress is proved.
using Pricer = std::function<Expected<Timeline>(Plan const&)>;

/// The `keep` cheapest plans by `price`, cheapest first, none twice, each complete and proved and with its
/// predicted_us; the first is choose()'s, and has the alternatives and reasons. Refuses as choose() does.
Expected<std::vector<Plan>> rank(CheckedPipeline const& checked, MachineProfile const& machine,
                                 Pricer const& price, PlanOptions const& options = {});
Expected<std::vector<Plan>> rank(OperatorGraph const& graph, Registry const& kernels,
                                 MachineProfile const& machine, Pricer const& price,
                                 PlanOptions const& options = {});

/// About how many blocks rank() gives its pricer, all candidates together: what a search takes, known before
/// it is begun. Refuses operators without a kernel (E0305), and what tile() refuses.
std::int64_t blocks_of_search(Pipeline const& pipeline);
Expected<std::int64_t> blocks_of_search(OperatorGraph const& graph, Registry const& kernels,
                                        MachineProfile const& machine);

/// What its candidates that wait for tiles take beyond that, in blocks: each list of awaited tiles is made,
/// proved and walked, as long as a block is simulated several times.
std::int64_t lists_of_search(Pipeline const& pipeline, PlanOptions const& options);

/// Cheapest plan by `price`. Never one that is predicted slower than the best stream order, unless
/// PlanOptions::mechanisms leaves stream order out: then the best of those asked for, and Plan::why says so.
/// Every alternative is in Plan::alternatives with its reason. Refuses what no mechanism can run, a stage
/// that fits no SM (E0301), policies that suit no dependence (E0304), operators without a kernel (E0305).
Expected<Plan> choose(CheckedPipeline const& checked, MachineProfile const& machine, Pricer const& price,
                      PlanOptions const& options = {});

/// The same over all kernels that can run the operators; shipped_kernels() are those of Tessera.
Expected<Plan> choose(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                      Pricer const& price, PlanOptions const& options = {});

}  // namespace tessera
