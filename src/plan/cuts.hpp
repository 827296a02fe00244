// SPDX-License-Identifier: Apache-2.0
// Where to cut a chain into groups of launches, and how each group runs: dynamic programming over the stages.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/search.hpp"
#include "tessera/plan/parts.hpp"

namespace tessera {

/// A part of the chain priced by itself: its best plan of those that an early launch may follow and precede
/// (a PDL chain may go through them), and of those with streams of their own (which are complete before
/// anything follows).
struct PricedPart {
  struct Choice {
    Plan plan;
    Recipe recipe;
    double us = 0;
    bool any = false;
  };
  Choice chain, streams;
  double floor_us = 0;  ///< no plan of the part is faster
};

/// Prices parts of a chain, each once however often it is repeated, and puts the best together. A part's time
/// alone stands for its time in the chain, plus the gap at its boundary; the few best ways to cut by that
/// measure are then priced whole.
class Cuts {
 public:
  /// All outlive it. `search` prices whole plans and collects what they came to.
  Cuts(CheckedPipeline const& checked, MachineProfile const& machine, Pricer const& price,
       PlanOptions const& options, Search& search);

  /// Offers the best ways to cut to the search. Nothing for chains of fewer than three stages: those have no
  /// mixture that Search does not try.
  void run();

 private:
  /// The best ways to run the first stages, up to some stage.
  struct Way {
    double us = 0;
    int from = 0;      ///< where the last part begins
    int previous = 0;  ///< which way up to there
    LaunchStart start = LaunchStart::in_order;
    bool streams = false;  ///< the last part is PricedPart::streams
  };

  PricedPart const* part(int first, int end);
  PricedPart price_part(int first, int end);
  void try_recipe(PricedPart& part, Pipeline const& pipeline, std::vector<BufferReuse> const& reuses,
                  Recipe const& recipe);
  double boundary_us(LaunchStart start) const;
  void extend(int end, int first, PricedPart const& part, bool streams);
  void offer(Way const& last);

  CheckedPipeline const& checked_;
  MachineProfile const& machine_;
  Pricer const& price_;
  PlanOptions const& options_;
  Search& search_;
  std::vector<std::int64_t> pairs_;  ///< by dependence, where they are too many together; else empty
  std::vector<std::vector<Policy>> policies_;  ///< by dependence of the whole chain
  std::map<std::string, PricedPart> priced_;   ///< by what the part is, names aside
  std::set<std::string> beyond_budget_;        ///< the same, of parts that are not priced
  std::vector<std::vector<Way>> ways_;         ///< by number of stages covered
  std::int64_t blocks_priced_ = 0;
};

/// What a part is, names aside: two parts with the same text have the same plans and prices.
std::string identity_of(Pipeline const& part, std::vector<BufferReuse> const& reuses);

}  // namespace tessera
