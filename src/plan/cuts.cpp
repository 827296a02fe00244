// SPDX-License-Identifier: Apache-2.0
#include "plan/cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/assemble.hpp"
#include "plan/awaited_pairs.hpp"
#include "plan/forms.hpp"
#include "plan/policy_families.hpp"
#include "plan/shapes.hpp"
#include "plan/tries.hpp"

namespace tessera {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Ways that are kept for every number of stages, and priced whole at the end.
constexpr std::size_t k_ways = 6;
/// Longest part that is run as one group of launches with tile waits; longer groups are PDL chains of parts.
constexpr int k_longest_part = 6;
/// Blocks that pricing parts may simulate, as in Search: counted, not timed, so that the answer follows from
/// the input.
constexpr std::int64_t k_part_budget = 600'000;
constexpr std::int64_t k_most_blocks_of_part = 60'000;
/// Policies tried for each mechanism on a part of two stages, and on longer ones.
constexpr std::size_t k_pair_families = 4;
constexpr std::size_t k_chain_families = 2;

/// Reuses between the stages of a part, with the part's indices. All of them stand in the order of writers; a
/// loop that is written out has one for each pair of iterations.
std::vector<BufferReuse> reuses_in(std::vector<BufferReuse> const& all, int first, int end) {
  std::vector<BufferReuse> result;
  auto reuse = std::lower_bound(all.begin(), all.end(), first,
                                [](BufferReuse const& one, int stage) { return one.writer < stage; });
  for (; reuse != all.end() && reuse->writer < end; ++reuse) {
    if (reuse->reader < first) continue;
    result.push_back(*reuse);
    result.back().reader -= first;
    result.back().writer -= first;
  }
  return result;
}

/// What an earlier stage wrote is still in the L2 when it fits: then it costs no read from memory.
void mark_what_is_there(Pipeline& part, Pipeline const& whole, int first, double l2_bytes) {
  for (auto& stage : part.stages)
    for (auto& operand : stage.operands)
      for (int s = 0; s < first; ++s)
        if (whole.stages[at(s)].output == operand.buffer && operand.unique_bytes <= l2_bytes)
          operand.unique_bytes = 0;
}

}  // namespace

std::string identity_of(Pipeline const& part, std::vector<BufferReuse> const& reuses) {
  static std::vector<std::string> const dims = {"x", "y", "z", "w"};
  std::vector<std::string> buffers;
  auto const number_of = [&](std::string const& name) {
    auto place = std::find(buffers.begin(), buffers.end(), name);
    if (place == buffers.end()) place = buffers.insert(buffers.end(), name);
    return place - buffers.begin();
  };
  std::string text;
  for (auto const& stage : part.stages) {
    text += fmt::format("stage {} {} {} {} {:.17g} {:.17g} {} {} {} {}", stage.splits, stage.kernel,
                        stage.activation, number_of(stage.output), stage.flops_per_block,
                        stage.store_bytes_per_block, stage.k_steps, stage.pipeline_stages,
                        stage.resources.threads, stage.resources.registers_per_thread);
    auto const& can = stage.can;
    text += fmt::format(" {} {} {:.17g} {:.17g} {} {} {:.17g} {:.17g} {:.17g}", stage.resources.shared_bytes,
                        stage.last_split_posts, stage.efficiency, stage.fixed_ns, stage.cluster_rows,
                        stage.cluster_columns, stage.block_time.alone_ns, stage.block_time.share_ns,
                        stage.block_time.waits_ns);
    for (int const height : can.heights) text += fmt::format(" {}", height);
    for (bool const ability : {can.wait, can.post, can.run_beside, can.start_early, can.persist, can.bands,
                               can.any_order, can.load_early, can.fuse, can.run_alone})
      text += ability ? '1' : '0';
    for (auto const& dim : stage.grid) text += fmt::format(" {}", dim.extent);
    for (auto const& operand : stage.operands)
      text +=
          fmt::format(" {}={} {:.17g} {:.17g} {} {:.17g}", operand.name, number_of(operand.buffer),
                      operand.bytes_per_block, operand.unique_bytes, operand.multicast, operand.full_bytes);
    text += '\n';
  }
  for (auto const& dependence : part.dependences) {
    text += fmt::format("dependence {} {} {}", dependence.consumer, dependence.producer, dependence.operand);
    for (auto const& access : dependence.accesses)
      for (auto const& range : access.ranges)
        text += fmt::format(" {} {} {}", to_text(range.begin, dims), to_text(range.end, dims), range.clamp);
    text += '\n';
  }
  for (auto const& reuse : reuses)
    text += fmt::format("reuse {} {} {}\n", reuse.writer, reuse.reader, reuse.covered);
  return text;
}

Cuts::Cuts(CheckedPipeline const& checked, MachineProfile const& machine, Pricer const& price,
           PlanOptions const& options, Search& search)
    : checked_(checked), machine_(machine), price_(price), options_(options), search_(search) {}

double Cuts::boundary_us(LaunchStart start) const {
  if (start == LaunchStart::in_order) return (machine_.stream_gap_ns - machine_.launch_ns) * 1e-3;
  return (machine_.pdl_grid_wait_ns - machine_.launch_ns - machine_.block_start_ns) * 1e-3;
}

void Cuts::try_recipe(PricedPart& part, Pipeline const& pipeline, std::vector<BufferReuse> const& reuses,
                      Recipe const& recipe) {
  auto plan = assemble(pipeline, reuses, machine_, recipe);
  if (!plan) return;
  auto const timeline = price_(*plan);
  blocks_priced_ += blocks_of(pipeline);
  if (!timeline) return;
  auto const us = static_cast<double>(timeline->end) * 1e-6;
  auto& choice = plan->launches.back().start == LaunchStart::beside ? part.streams : part.chain;
  if (choice.any && choice.us <= us) return;
  choice = {std::move(*plan), recipe, us, true};
}

PricedPart Cuts::price_part(int first, int end) {
  auto part = part_of(checked_.pipeline(), first, end);
  auto& pipeline = part.pipeline;
  mark_what_is_there(pipeline, checked_.pipeline(), first, machine_.l2_mib * 1024 * 1024);
  auto const reuses = reuses_in(checked_.reuses(), first, end);
  PricedPart result;
  Loads sum;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const loads = loads_of(pipeline, s, machine_);
    sum.memory += loads.memory;
    sum.l2 += loads.l2;
    sum.matrix += loads.matrix;
    sum.port += loads.port;
  }
  result.floor_us = sum.most() + machine_.launch_ns * 1e-3;
  if (end - first == 1) {
    auto recipe = recipe_for(Mechanism::stream_order, options_.all_optimizations);
    for (auto const& form : forms_of(pipeline.stages.front(), machine_)) {
      recipe.stages = {form};
      try_recipe(result, pipeline, reuses, recipe);
    }
    return result;
  }
  std::int64_t pairs = 0;
  if (!pairs_.empty())
    for (auto const d : part.dependences) pairs += pairs_[at(d)];
  if (pairs > k_most_awaited_pairs) return result;
  std::vector<std::vector<Policy>> per_dependence;
  for (auto const d : part.dependences) per_dependence.push_back(policies_[at(d)]);
  auto families = policy_families(per_dependence);
  auto const most = end - first == 2 ? k_pair_families : k_chain_families;
  // The finest and the coarsest differ most.
  if (families.size() > most)
    families.erase(families.begin() + static_cast<std::ptrdiff_t>(most) - 1, families.end() - 1);
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::fused, Mechanism::wait_kernel}) {
    if (!search_.wants(mechanism)) continue;
    if (cannot_run(pipeline, machine_, recipe_for(mechanism, true))) continue;
    auto best = recipe_for(mechanism, options_.all_optimizations);
    double best_us = 0;
    auto const attempt = [&](Recipe const& recipe) {
      PricedPart one;
      try_recipe(one, pipeline, reuses, recipe);
      for (auto const& [mine, theirs] :
           {std::pair{&one.chain, &result.chain}, {&one.streams, &result.streams}}) {
        if (!mine->any) continue;
        if (best_us == 0 || mine->us < best_us) best = recipe, best_us = mine->us;
        if (!theirs->any || mine->us < theirs->us) *theirs = std::move(*mine);
      }
    };
    auto const forms = forms_behind_tiles(pipeline, machine_, mechanism);
    for (auto const& family : families) {
      auto recipe = recipe_for(mechanism, options_.all_optimizations);
      recipe.policies = family;
      recipe.stages = forms.front();
      attempt(recipe);
    }
    if (best_us == 0) continue;
    auto variant = best;
    for (std::size_t form = 1; form < forms.size() && blocks_priced_ <= k_part_budget; ++form) {
      variant.stages = forms[form];
      attempt(variant);
    }
    variant = best;
    variant.as_needed_order = true;
    attempt(variant);
    if (mechanism != Mechanism::fused) continue;
    variant = best;
    variant.merged_tickets = true;
    attempt(variant);
  }
  return result;
}

PricedPart const* Cuts::part(int first, int end) {
  auto pipeline = part_of(checked_.pipeline(), first, end).pipeline;
  auto const blocks = blocks_of(pipeline);
  // The first part of a chain finds nothing in the L2; a later one may, so that the two are not the same.
  mark_what_is_there(pipeline, checked_.pipeline(), first, machine_.l2_mib * 1024 * 1024);
  auto key = identity_of(pipeline, reuses_in(checked_.reuses(), first, end));
  if (auto const known = priced_.find(key); known != priced_.end()) return &known->second;
  if (end - first > 1 && (blocks_priced_ > k_part_budget || blocks > k_most_blocks_of_part)) {
    beyond_budget_.insert(std::move(key));
    return nullptr;
  }
  if (end - first > 1) {
    // Nothing is gained by one group where its stages, one after the other, are no slower than its floor.
    double apart = -boundary_us(LaunchStart::in_order), floor_us = 0;
    for (int s = first; s < end; ++s) {
      auto const* const alone = part(s, s + 1);
      if (alone == nullptr || !alone->chain.any) return nullptr;
      apart += alone->chain.us + boundary_us(LaunchStart::in_order);
      floor_us += alone->floor_us - machine_.launch_ns * 1e-3;
    }
    if (floor_us + machine_.launch_ns * 1e-3 >= apart) return nullptr;
  }
  auto priced = price_part(first, end);
  return &priced_.emplace(std::move(key), std::move(priced)).first->second;
}

void Cuts::extend(int end, int first, PricedPart const& part, bool streams) {
  auto const& choice = streams ? part.streams : part.chain;
  if (!choice.any) return;
  auto& ways = ways_[at(end)];
  for (std::size_t previous = 0; previous < ways_[at(first)].size(); ++previous) {
    auto const& before = ways_[at(first)][previous];
    for (auto const start : {LaunchStart::in_order, LaunchStart::early}) {
      bool const early = start == LaunchStart::early;
      if (first == 0 ? early : !search_.wants(early ? Mechanism::pdl : Mechanism::stream_order)) continue;
      if (early && (!machine_.has_pdl || streams || before.streams)) continue;
      if (early && !checked_.pipeline().stages[at(first)].can.start_early) continue;
      auto const us = first == 0 ? choice.us : before.us + choice.us + boundary_us(start);
      ways.push_back({us, first, static_cast<int>(previous), start, streams});
    }
  }
}

void Cuts::offer(Way const& last) {
  std::vector<PlannedPart> parts;
  Recipe recipe;
  int end = static_cast<int>(checked_.pipeline().stages.size());
  for (auto const* way = &last; end > 0; end = way->from, way = &ways_[at(end)][at(way->previous)]) {
    auto const* const priced = part(way->from, end);
    auto const& choice = way->streams ? priced->streams : priced->chain;
    parts.insert(parts.begin(), {choice.plan, way->start});
    recipe.policies.insert(recipe.policies.end(), choice.recipe.policies.begin(),
                           choice.recipe.policies.end());
    if (way->from == 0) break;
  }
  auto plan = join(checked_.pipeline(), checked_.reuses(), parts);
  // R at the boundaries: what has no producer may be loaded while the launch before still runs.
  if (options_.all_optimizations) load_early_where_possible(plan);
  auto const first = group_of(plan, 0);
  bool const streams = std::any_of(plan.launches.begin(), plan.launches.begin() + first.end,
                                   [](Launch const& l) { return l.start == LaunchStart::beside; });
  if (!streams && may_chain(options_, machine_, plan.pipeline))
    plan.launches.front().start = LaunchStart::early;
  search_.offer(std::move(plan), recipe);
}

void Cuts::run() {
  int const stages = static_cast<int>(checked_.pipeline().stages.size());
  if (stages < 3) return;
  bool const groups = search_.wants_tile_waits();
  if (groups) {
    auto policies = allowed_policies(checked_.pipeline(), options_.policies);
    if (!policies) return;
    policies_ = std::move(*policies);
    if (too_many_awaited_pairs(checked_)) pairs_ = awaited_pairs(checked_);
  }
  // Without tile waits, a part is one stage.
  int const longest = groups ? std::min(k_longest_part, stages) : 1;
  ways_.assign(at(stages) + 1, {});
  ways_[0].push_back({});
  for (int length = 1; length <= longest; ++length)
    for (int first = 0; first + length <= stages; ++first) (void)part(first, first + length);
  for (int end = 1; end <= stages; ++end) {
    for (int first = std::max(0, end - longest); first < end; ++first)
      if (auto const* const priced = part(first, end))
        for (bool const streams : {false, true}) extend(end, first, *priced, streams);
    auto& ways = ways_[at(end)];
    std::stable_sort(ways.begin(), ways.end(), [](Way const& a, Way const& b) { return a.us < b.us; });
    if (ways.size() > k_ways) ways.resize(k_ways);
  }
  if (!beyond_budget_.empty())
    search_.leave_out(
        fmt::format("{} parts of the chain as one group of launches", beyond_budget_.size()),
        fmt::format("not tried: parts of at most {} blocks are simulated, and of all at most {} blocks",
                    k_most_blocks_of_part, k_part_budget));
  for (auto const& way : ways_[at(stages)]) offer(way);
}

}  // namespace tessera
