// SPDX-License-Identifier: Apache-2.0
// Prices candidates and remembers the best, and what every other one came to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/outcome.hpp"
#include "tessera/plan/choose.hpp"

namespace tessera {

/// Of all candidates of a pipeline of so many blocks that a search attempts with mechanisms, at most.
std::int64_t blocks_with_mechanisms(std::int64_t blocks);
/// How many of these wait for tiles, at most; one if none would be priced. Precondition: there are blocks.
std::int64_t candidates_with_tile_waits(std::int64_t blocks);
/// Of all ways to cut a chain that are priced beside them, at most.
std::int64_t blocks_of_offers(std::int64_t blocks);

std::int64_t blocks_of(Pipeline const& pipeline);

struct Candidate {
  Recipe recipe;
  Plan plan;
  Timeline timeline;
  Outcome outcome;
};

class Search {
 public:
  /// All three outlive the search.
  Search(MachineProfile const& machine, Pricer const& price, PlanOptions const& options)
      : machine_(machine), price_(price), options_(options) {}

  MachineProfile const& machine() const { return machine_; }
  PlanOptions const& options() const { return options_; }
  bool wants(Mechanism mechanism) const;
  /// Any whose tiles wait for tiles.
  bool wants_tile_waits() const;

  /// The recipe's plan, priced: microseconds. Nothing, and the reason is kept, if it cannot be made or is
  /// beyond the budget; nothing for merged tickets that come stage by stage.
  std::optional<double> attempt(CheckedPipeline const& checked, Recipe const& recipe);

  /// The same for a plan that was made and proved.
  std::optional<double> price(Plan plan, Recipe const& recipe);

  /// Prices a plan that was put together elsewhere, if it can be proved and is not known: there is
  /// a budget of their own for such.
  void offer(Plan plan, Recipe const& recipe);

  /// Whether one more candidate of this size is within the budget; if not, it counts as left out.
  bool affords(Pipeline const& pipeline);
  /// Whether it is within what is priced at most, whatever the budget.
  bool within_limits(Pipeline const& pipeline) const;

  /// Whether a candidate of this description has been priced.
  bool known(std::string const& description) const;

  void leave_out(std::string description, std::string reason);
  void note_refusal(Recipe const& recipe, Pipeline const& pipeline, Diagnostics const& why);
  Diagnostics const& refusals() const { return refusals_; }

  Candidate const* best() const { return kept_.empty() ? nullptr : &kept_.front(); }
  double best_stream_us() const { return best_stream_ ? best_stream_->us : 0; }

  /// The best, and as many after it as were asked for. Precondition: at least one stream order was priced.
  /// Refuses if nothing that was asked for can run.
  Expected<std::vector<Plan>> finish();

 private:
  void keep(Candidate candidate);
  /// Why no start of a stage before the ones before it are complete was priced; empty where one was.
  std::string no_early_start() const;

  MachineProfile const& machine_;
  Pricer const& price_;
  PlanOptions const& options_;
  std::vector<Candidate> kept_;  ///< the best, cheapest first
  std::optional<Outcome> best_stream_;
  std::vector<Outcome> outcomes_;
  std::vector<Alternative> left_out_;
  Diagnostics refusals_;
  int priced_ = 0;
  std::int64_t offered_ = 0;  ///< blocks
  std::int64_t blocks_priced_ = 0;
  int beyond_budget_ = 0;
};

/// The same kernels and splits, stage by stage.
bool same_kernels(Pipeline const& a, Pipeline const& b);

}  // namespace tessera
