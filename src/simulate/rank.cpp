// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "tessera/plan/parts.hpp"
#include "tessera/simulate/in_turns.hpp"

namespace tessera {
namespace {

/// How many plans in stream order set the clock.
constexpr int k_in_turns = 8;

// A simulated block takes some 0.2 us of one core with all that a search does besides.
constexpr auto k_most_blocks = k_most_work_of_search;

/// The clock of a plan at its power limit takes that many simulations.
constexpr int k_clocks = 3;

Diagnostic too_long(std::string const& name, SourceLine const& where, std::int64_t blocks,
                    std::string way_out) {
  return {"E0504",
          Severity::error,
          where,
          fmt::format(
              "to plan {}, some {} million blocks would be simulated, all candidates together; at most {} "
              "million are",
              name, (blocks + 999'999) / 1'000'000, k_most_blocks / 1'000'000),
          {},
          std::move(way_out)};
}

constexpr char const* k_smaller =
    "plan a smaller problem of the same shape: with hundreds of waves, time grows as the work does";

constexpr char const* k_fewer_reads =
    "let tiles read fewer others, in fewer ranges, or ask for stream order and PDL alone";

/// Each way to cut a pipeline into launches is a plan of all of its stages: a chain of 2500 takes 2.4 s.
constexpr std::int64_t k_blocks_of_stage_pair = 2;

/// Each of many operators has kernels to choose among: a chain of 700 takes two seconds.
constexpr std::int64_t k_blocks_of_operator_pair = 20;

/// How many of what counts by pairs can be planned.
std::int64_t most_of(std::int64_t blocks_of_pair) {
  return std::lround(std::sqrt(k_most_blocks / blocks_of_pair));
}

/// All that a search takes, in blocks. `edges`: of a stage and an earlier one whose buffer it overwrites.
std::int64_t work_of_search(Pipeline const& pipeline, std::int64_t edges, MachineProfile const& machine,
                            PlanOptions const& options) {
  // 1000 stages that overwrite one buffer take 8 us for each two of them.
  constexpr std::int64_t k_blocks_of_edge = 40;
  auto const stages = static_cast<std::int64_t>(pipeline.stages.size());
  auto work = k_blocks_of_stage_pair * stages * stages + blocks_of_search(pipeline) +
              lists_of_search(pipeline, options) + k_blocks_of_edge * edges;
  if (machine.power_limit_w > 0)
    for (auto const& stage : pipeline.stages) work += k_clocks * stage.blocks();
  return work;
}

std::int64_t uncovered(CheckedPipeline const& checked) {
  return std::count_if(checked.reuses().begin(), checked.reuses().end(),
                       [](BufferReuse const& reuse) { return !reuse.covered; });
}

/// A search that is not begun.
std::optional<Diagnostic> too_long(CheckedPipeline const& checked, MachineProfile const& machine,
                                   PlanOptions const& options) {
  auto const& pipeline = checked.pipeline();
  auto const edges = uncovered(checked);
  auto const work = work_of_search(pipeline, edges, machine, options);
  if (work <= k_most_blocks) return std::nullopt;
  auto refusal = too_long(pipeline.name, pipeline.where, work, k_smaller);
  if (auto const lists = lists_of_search(pipeline, options); lists > 0)
    refusal.notes.push_back(fmt::format(
        "{} of them stand for lists of the tiles that a tile waits for: stream order and PDL have none",
        lists < 1'000'000 ? std::to_string(lists) : fmt::format("{} million", lists / 1'000'000)));
  if (lists_of_search(pipeline, options) > work / 2) refusal.suggestion = k_fewer_reads;
  if (edges > 0)
    refusal.notes.push_back(
        fmt::format("{} times a stage overwrites what an earlier one used, and is to wait for it", edges));
  if (auto const stages = static_cast<std::int64_t>(pipeline.stages.size());
      k_blocks_of_stage_pair * stages * stages > k_most_blocks)
    refusal.notes.push_back(fmt::format("{} stages; {} can be planned, where they are small", stages,
                                        most_of(k_blocks_of_stage_pair)));
  if (int const stages = checked.iteration_stages(); stages > 0) {
    auto const all = static_cast<std::int64_t>(pipeline.stages.size()) / stages;
    auto fewer = std::int64_t{1};
    for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(all))); step > 0;
         step /= 2) {
      auto const more = fewer + step;
      if (more >= all) continue;
      auto const part = part_of(pipeline, 0, static_cast<int>(more) * stages);
      bool const fits =
          work_of_search(part.pipeline, edges * more / all * more / all, machine, options) <= k_most_blocks;
      fewer = fits ? more : fewer;
    }
    refusal.suggestion = fmt::format("plan {} iteration{}, as more of them repeat what these do", fewer,
                                     fewer == 1 ? "" : "s");
  }
  return refusal;
}

/// `blocks`: of the search.
template <class Rank>
Expected<std::vector<Plan>> at_one_clock(MachineProfile const& machine, PlanOptions const& options,
                                         std::int64_t blocks, PriceObserver const& observer,
                                         Rank&& rank_with) {
  auto const observed = [&](Expected<Timeline> timeline) {
    if (timeline && observer) observer(static_cast<double>(timeline->end) * 1e-6);
    return timeline;
  };
  std::optional<MachineProfile> guess;
  auto const at_guess = [&](Plan const& plan) {
    if (!guess) guess = at_shared_clock({plan}, machine);
    return observed(simulate(plan, *guess, {false}));
  };
  // Two searches, of which the first settles clocks, would be too long: that of the first plan is taken for
  // all. Grids of many waves draw much the same.
  constexpr int k_searches = 3;
  if (k_searches * blocks > k_most_blocks) return rank_with(at_guess, options);
  auto shared = machine;
  if (machine.power_limit_w > 0) {
    auto in_order = options;
    in_order.mechanisms = {Mechanism::stream_order};
    in_order.policies.clear();
    in_order.chained = false;
    in_order.keep = k_in_turns;
    // Which plans these are hardly depends on the clock: that of the first one will do.
    auto const plans = rank_with(at_guess, in_order);
    if (!plans) return plans;
    shared = at_shared_clock(*plans, machine);
  }
  return rank_with([&](Plan const& plan) { return observed(simulate(plan, shared, {false})); }, options);
}

Plan first_of(std::vector<Plan> plans) { return std::move(plans.front()); }

std::int64_t work_of_pairs(OperatorGraph const& graph) {
  auto const operators = static_cast<std::int64_t>(graph.operators.size());
  return k_blocks_of_operator_pair * operators * operators;
}

Diagnostic too_long(OperatorGraph const& graph, std::int64_t work) {
  bool const many = work_of_pairs(graph) > k_most_blocks;
  auto refusal = too_long(graph.name, graph.where, work, many ? "plan parts of the chain" : k_smaller);
  if (many)
    refusal.notes.push_back(fmt::format("{} operators; {} can be planned, where they are small",
                                        graph.operators.size(), most_of(k_blocks_of_operator_pair)));
  return refusal;
}

}  // namespace

Expected<std::int64_t> work_of_search(OperatorGraph const& graph, Registry const& kernels,
                                      MachineProfile const& machine) {
  // The blocks of so many would take long to count.
  if (auto const pairs = work_of_pairs(graph); pairs > k_most_blocks) return pairs;
  return blocks_of_search(graph, kernels, machine).map([&](std::int64_t blocks) {
    return blocks + work_of_pairs(graph);
  });
}

std::int64_t work_of_search(CheckedPipeline const& checked, MachineProfile const& machine,
                            PlanOptions const& options) {
  return work_of_search(checked.pipeline(), uncovered(checked), machine, options);
}

Expected<std::vector<Plan>> rank_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                               MachineProfile const& machine, PlanOptions const& options,
                                               PriceObserver const& observer) {
  auto const blocks = work_of_search(graph, kernels, machine);
  if (!blocks) return tl::make_unexpected(blocks.error());
  if (*blocks > k_most_blocks) return refuse(too_long(graph, *blocks));
  return at_one_clock(machine, options, *blocks, observer, [&](Pricer const& price, PlanOptions const& with) {
    return rank(graph, kernels, machine, price, with);
  });
}

Expected<std::vector<Plan>> rank_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                               PlanOptions const& options, PriceObserver const& observer) {
  if (auto refusal = too_long(checked, machine, options)) return refuse(std::move(*refusal));
  auto const blocks = blocks_of_search(checked.pipeline());
  return at_one_clock(machine, options, blocks, observer, [&](Pricer const& price, PlanOptions const& with) {
    return rank(checked, machine, price, with);
  });
}

Expected<Plan> choose_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                    MachineProfile const& machine, PlanOptions const& options,
                                    PriceObserver const& observer) {
  return rank_by_simulation(graph, kernels, machine, options, observer).map(first_of);
}

Expected<Plan> choose_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                    PlanOptions const& options, PriceObserver const& observer) {
  return rank_by_simulation(checked, machine, options, observer).map(first_of);
}

}  // namespace tessera
