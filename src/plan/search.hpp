// SPDX-License-Identifier: Apache-2.0
// Prices candidates and remembers the best, and what every other one came to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/outcome.hpp"
#include "tessera/plan/choose.hpp"

namespace tessera {

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

  /// Microseconds in stream order, or why it cannot run.
  Expected<double> stream_order(Pipeline const& pipeline, std::vector<StageRecipe> const& forms = {});

  /// PDL with its grid-wide wait, for a pipeline whose stream order has been priced; of a single stage,
  /// chained.
  void grid_waits(CheckedPipeline const& checked, std::vector<StageRecipe> const& forms = {});

  /// Every mechanism with semaphores, every policy, form and order, as far as the budget goes.
  Expected<void> tile_waits(CheckedPipeline const& checked);

  /// Other bands and grids of one stage after the other, from the best candidate on.
  void refine(CheckedPipeline const& checked);

  /// The best candidate again, without each of its optimizations.
  void ablate(CheckedPipeline const& checked);

  /// Prices a plan that was put together elsewhere, if it can be proved and is not known.
  void offer(Plan plan, Recipe const& recipe);

  void leave_out(std::string description, std::string reason);

  /// By dependence: all that are generated, of those that were asked for. E0304 if none suits one.
  Expected<std::vector<std::vector<Policy>>> allowed_policies(Pipeline const& pipeline) const;

  /// The best, and as many after it as were asked for. Precondition: at least one stream order was priced.
  /// Refuses if nothing that was asked for can run.
  Expected<std::vector<Plan>> finish();

  Candidate const* best() const { return kept_.empty() ? nullptr : &kept_.front(); }
  double best_stream_us() const { return best_stream_ ? best_stream_->us : 0; }
  bool wants(Mechanism mechanism) const;

 private:
  enum class Tried { better, not_better, refused };
  Tried try_recipe(CheckedPipeline const& checked, Recipe const& recipe);
  Tried price(Plan plan, Recipe const& recipe);
  void keep(Candidate candidate);
  Recipe recipe(Mechanism mechanism, Pipeline const& pipeline) const;
  bool known(std::string const& description) const;
  void note_refusal(Recipe const& recipe, Pipeline const& pipeline, Diagnostics const& why);
  bool affordable(Pipeline const& pipeline) const;

  MachineProfile const& machine_;
  Pricer const& price_;
  PlanOptions const& options_;
  std::vector<Candidate> kept_;  ///< the best, cheapest first
  std::optional<Outcome> best_stream_;
  std::vector<Outcome> outcomes_;
  std::vector<Alternative> left_out_;
  Diagnostics refusals_;
  int priced_ = 0;
  std::int64_t blocks_priced_ = 0;
  int beyond_budget_ = 0;
};

/// Whether candidates' first launches start early.
bool may_chain(PlanOptions const& options, MachineProfile const& machine, Pipeline const& pipeline);

/// With all of the paper's optimizations, or with none ("vanilla").
Recipe recipe_for(Mechanism mechanism, bool optimized);

/// One policy per dependence for every name that any dependence has: the dependences that have no policy of
/// the name take their finest.
std::vector<std::vector<Policy>> policy_families(std::vector<std::vector<Policy>> const& per_dependence);

}  // namespace tessera
