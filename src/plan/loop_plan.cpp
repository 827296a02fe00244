// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/loop_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/loop_exchanges.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
namespace {

constexpr int k_longest_period = 64;

tl::unexpected<Diagnostics> cannot(SourceLine const& where, std::string message, std::string way_out) {
  return refuse({"E0116", Severity::error, where, std::move(message), {}, std::move(way_out)});
}

/// Iterations behind which every buffer is back at its first copy.
int period_of(Loop const& loop) {
  int period = 1;
  for (auto const& one : loop.copies)
    if (one.copies > 0 && period <= k_longest_period) period = std::lcm(period, one.copies);
  return period;
}

enum class Form { one_launch, launches };

/// What a stage's kernel lacks for a form; null: nothing.
char const* lacking(Abilities const& can, Form form) {
  if (form == Form::one_launch && !can.fuse) return "be one of several stages of a launch";
  if (form == Form::launches && !can.run_alone) return "be a launch of its own";
  if (form == Form::launches && !can.start_early) return "start before the kernel before it is complete";
  return !can.wait ? "wait for tiles" : !can.post ? "post tiles" : nullptr;
}

class LoopPlanner {
 public:
  LoopPlanner(Loop const& loop, MachineProfile const& machine, Form form, int workers,
              std::vector<std::string> const& tokens)
      : machine_(machine), form_(form), workers_(workers) {
    result_.loop = loop;
    result_.tokens = tokens;
  }

  /// The buffers of `tokens` are then offers, of which some are taken.
  void choose_by_price(LoadAhead const& ahead) { ahead_ = ahead; }

  Expected<LoopPlan> run() {
    auto const& loop = result_.loop;
    if (form_ == Form::launches && !machine_.has_pdl)
      return refuse({"E0303",
                     Severity::error,
                     loop.body.where,
                     fmt::format("{} has no programmatic dependent launch", machine_.name),
                     {},
                     "plan the loop as one persistent launch: plan_loop()"});
    auto const checked = check(loop, window_of(loop));
    if (!checked) return tl::make_unexpected(checked.error());
    if (auto able = workers_can(); !able) return tl::make_unexpected(able.error());
    if (auto able = stages_can(); !able) return tl::make_unexpected(able.error());
    if (auto able = dependences_can(); !able) return tl::make_unexpected(able.error());
    if (auto able = tokens_can(); !able) return tl::make_unexpected(able.error());
    if (ahead_)
      if (auto able = exchanges(*checked); !able) return tl::make_unexpected(able.error());
    result_.period = period_of(loop);
    if (result_.period > k_longest_period)
      return cannot(
          loop.body.where,
          fmt::format("the copies of the buffers repeat after {} iterations or more, {} are possible",
                      result_.period, k_longest_period),
          "give the buffers numbers of copies that divide each other");
    stages_ = static_cast<int>(loop.body.stages.size()) * result_.period;
    if (auto done = edges(); !done) return tl::make_unexpected(done.error());
    return form_ == Form::one_launch ? one_launch() : launches();
  }

 private:
  Expected<void> stages_can() const {
    for (auto const& stage : result_.loop.body.stages) {
      if (stage.splits > 1)
        return cannot(
            stage.where,
            fmt::format("{} computes its tiles in {} splits; a loop that is planned once counts one post "
                        "for a tile and period",
                        stage.name, stage.splits),
            "plan the loop with splits of 1, or a number of iterations: check(loop, n)");
      if (auto const* const what = lacking(stage.can, form_))
        return cannot(stage.where, fmt::format("the kernel of {} cannot {}", stage.name, what),
                      "take a tile function, or plan a number of iterations: check(loop, n)");
    }
    return {};
  }

  /// Each tile has a semaphore of its own, and all that a complete tile does is to let others start.
  Expected<void> dependences_can() const {
    auto const& loop = result_.loop;
    auto all = loop.body.dependences;
    for (auto const& one : loop.carried) all.push_back(one.dependence);
    for (auto const& one : all) {
      auto const& consumer = loop.body.stages[static_cast<std::size_t>(one.consumer)].name;
      if (one.policy && !(one.policy->map == each_tile().map))
        return cannot(one.where,
                      fmt::format("{} waits under the policy {}; in a loop that is planned once each tile "
                                  "has a semaphore of its own",
                                  consumer, one.policy->name),
                      "leave the policy out, or plan a number of iterations: check(loop, n)");
      if (one.on_complete != OnComplete::release_waiters)
        return cannot(one.where,
                      fmt::format("tiles that {} reads go to a peer when they are complete", consumer),
                      "a loop that is planned once stays on its GPU");
    }
    return {};
  }

  Expected<void> workers_can() const {
    if (workers_ >= 0) return {};
    return cannot(result_.loop.body.where,
                  fmt::format("a launch of loop \"{}\" by {} workers", result_.loop.body.name, workers_),
                  "ask for 1 or more, or 0: as many as fit");
  }
  Expected<void> tokens_can() const {
    auto const& stages = result_.loop.body.stages;
    for (auto const& buffer : result_.tokens)
      if (std::none_of(stages.begin(), stages.end(),
                       [&](Stage const& stage) { return stage.output == buffer; }))
        return cannot(result_.loop.body.where,
                      fmt::format("no stage writes {}, whose elements shall carry the iteration", buffer),
                      "name outputs of stages");
    return {};
  }

  /// Chooses how each buffer goes from stage to stage, and leaves in LoopPlan::tokens those that go as words.
  Expected<void> exchanges(CheckedPipeline const& iterations) {
    if (!(ahead_->in_flight_bytes >= 0) || !(ahead_->room_bytes >= 0))
      return cannot(result_.loop.body.where,
                    fmt::format("{} bytes are on their way and {} loaded ahead on each SM",
                                ahead_->in_flight_bytes, ahead_->room_bytes),
                    "give bytes of 0 or more");
    result_.exchanges = choose_exchanges(iterations, result_.loop, machine_, {result_.tokens, *ahead_},
                                         workers_ > 0 ? workers_ : machine_.sms);
    result_.tokens.clear();
    for (auto const& one : result_.exchanges)
      if (one.choice.way == Exchange::words) result_.tokens.push_back(one.buffer);
    return {};
  }
  bool carries_tokens(int producer) const {
    auto const body = static_cast<std::size_t>(producer) % result_.loop.body.stages.size();
    auto const& tokens = result_.tokens;
    return std::find(tokens.begin(), tokens.end(), result_.loop.body.stages[body].output) != tokens.end();
  }

  /// Edges of a period far enough from the first one, by how many periods they reach back.
  Expected<void> edges() {
    auto const& loop = result_.loop;
    int const period = result_.period;
    int const periods = (window_of(loop) + period - 1) / period + 1;
    auto const all = check(unroll(loop, periods * period));
    if (!all) return tl::make_unexpected(all.error());
    int const first = (periods - 1) * stages_;  // of the last period
    auto& plan = result_.plan;
    plan.pipeline = unroll(loop, period);
    plan.pipeline.dependences.clear();
    for (std::size_t d = 0; d < all->pipeline().dependences.size(); ++d) {
      auto dependence = all->pipeline().dependences[d];
      if (dependence.consumer < first) continue;
      int const distance = periods - 1 - dependence.producer / stages_;
      dependence.consumer -= first;
      dependence.producer %= stages_;
      if (carries_tokens(dependence.producer)) {
        auto const tiles = plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)].tiles();
        reads_some_tokens_ = reads_some_tokens_ || all->facts()[d].min_producers < tiles;
        continue;
      }
      int const set = set_of(dependence.producer);
      if (distance > 0) {
        result_.carried.push_back({std::move(dependence), distance, set});
        continue;
      }
      plan.dependences.push_back({static_cast<int>(plan.pipeline.dependences.size()), set});
      plan.pipeline.dependences.push_back(std::move(dependence));
    }
    return reuses(*all, periods);
  }

  Expected<void> reuses(CheckedPipeline const& all, int periods) {
    int const first = (periods - 1) * stages_;
    for (auto const& reuse : all.reuses()) {
      // Whoever has read all of a buffer's words knows that all its tiles are complete. From some of them
      // nothing follows that a later store may rest on: it waits by itself.
      if (reuse.writer < first || (reuse.covered && !reads_some_tokens_) || is_older(reuse)) continue;
      int const writer = reuse.writer - first, reader = reuse.reader % stages_;
      int const distance = periods - 1 - reuse.reader / stages_;
      if (distance == 0)
        result_.plan.reuse_edges.push_back({writer, reader, reuse.buffer, set_of(reader)});
      else
        result_.reuses.push_back({writer, reader, distance, set_of(reader)});
    }
    in_order_of_periods();
    return {};
  }
  /// Outputs that each iteration has of its own are never overwritten. Yet a tile's posts of two periods must
  /// come in order: they are counted, and not told apart.
  void in_order_of_periods() {
    auto const body = result_.loop.body.stages.size();
    for (auto const& set : std::vector(result_.plan.semaphores)) {
      auto const s = static_cast<std::size_t>(set.producer) % body;
      if (copies_of(result_.loop, result_.loop.body.stages[s].output) == BufferCopies::each_iteration)
        result_.reuses.push_back({set.producer, set.producer, 1, set_of(set.producer)});
    }
  }
  /// Was what the reader used overwritten before, by a copy's user between it and the writer? Then that one
  /// waits for the reader, and the writer for that one.
  bool is_older(BufferReuse const& reuse) const {
    auto const& loop = result_.loop;
    auto const stages = static_cast<int>(loop.body.stages.size());
    auto const& writer = loop.body.stages[static_cast<std::size_t>(reuse.writer % stages)];
    auto const& reader = loop.body.stages[static_cast<std::size_t>(reuse.reader % stages)];
    int const iteration = reuse.reader / stages;
    int used = reader.output == writer.output ? iteration : iteration - k_longest_period;
    for (auto const& operand : reader.operands)
      if (operand.buffer == writer.output)
        used = std::max(used, iteration - distance_of(loop, reuse.reader % stages, operand.name));
    int const copies = copies_of(loop, writer.output);
    return used + copies < reuse.writer / stages;
  }

  /// The stage's own set, a semaphore for each tile.
  int set_of(int producer) {
    auto& sets = result_.plan.semaphores;
    for (std::size_t i = 0; i < sets.size(); ++i)
      if (sets[i].producer == producer) return static_cast<int>(i);
    auto const body = static_cast<std::size_t>(producer) % result_.loop.body.stages.size();
    auto const tile_sync = each_tile();
    SemaphoreSet set{producer, tile_sync.map, tile_sync.name, semaphores_,
                     tile_sync.map.count(result_.loop.body.stages[body].tile_grid())};
    semaphores_ += set.count;
    sets.push_back(std::move(set));
    return static_cast<int>(sets.size()) - 1;
  }

  /// A launch for each stage. The first one starts early, too: behind the last one of the period before.
  Expected<LoopPlan> launches() {
    auto& plan = result_.plan;
    plan.launches = launches_for(Mechanism::pdl_tiles, stages_);
    plan.launches.front().start = LaunchStart::early;
    for (auto const& stage : plan.pipeline.stages) {
      StagePlan planned;
      planned.occupancy = occupancy(machine_, stage.resources);
      planned.waves = static_cast<double>(stage.blocks()) / (std::max(1, planned.occupancy) * machine_.sms);
      plan.stages.push_back(planned);
    }
    return proved("; every wait for an earlier period is for an earlier launch");
  }

  Expected<LoopPlan> one_launch() {
    auto& plan = result_.plan;
    Launch launch{0, stages_, LaunchStart::in_order, false, 0, {}};
    int const resident = occupancy(machine_, worker_resources(plan.pipeline, launch));
    launch.workers = workers_ > 0 ? workers_ : std::max(1, resident * machine_.sms);
    plan.launches = {launch};
    for (auto const& stage : plan.pipeline.stages) {
      StagePlan planned;
      planned.occupancy = resident;
      planned.waves = static_cast<double>(stage.blocks()) / launch.workers;
      plan.stages.push_back(planned);
    }
    return proved("; every wait for an earlier period is for an earlier ticket");
  }

  Expected<LoopPlan> proved(char const* of_earlier_periods) {
    auto& plan = result_.plan;
    plan.machine = machine_.name;
    plan.machine_values = planning_values(machine_, plan.pipeline);
    auto proof = prove_progress(plan, machine_);
    if (!proof) return tl::make_unexpected(proof.error());
    plan.proof = *proof + of_earlier_periods;
    return std::move(result_);
  }

  MachineProfile const& machine_;
  Form form_;
  int workers_;
  std::optional<LoadAhead> ahead_;  ///< exchanges are chosen by price
  int stages_ = 0;                  ///< of a period
  bool reads_some_tokens_ = false;  ///< some tile reads a part of a buffer whose elements carry the iteration
  std::int64_t semaphores_ = 0;
  LoopPlan result_;
};

}  // namespace

Expected<LoopPlan> plan_loop(Loop const& loop, MachineProfile const& machine, int workers,
                             std::vector<std::string> const& tokens) {
  return LoopPlanner(loop, machine, Form::one_launch, workers, tokens).run();
}

Expected<LoopPlan> plan_loop_by_price(Loop const& loop, MachineProfile const& machine,
                                      LoopOffers const& offers, int workers) {
  LoopPlanner planner(loop, machine, Form::one_launch, workers, offers.words);
  planner.choose_by_price(offers.ahead);
  return planner.run();
}

Expected<LoopPlan> plan_loop_launches(Loop const& loop, MachineProfile const& machine) {
  return LoopPlanner(loop, machine, Form::launches, 0, {}).run();
}

}  // namespace tessera
