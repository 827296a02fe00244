// SPDX-License-Identifier: Apache-2.0
#include "tessera/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "check/bounds.hpp"
#include "check/count.hpp"
#include "check/dependences.hpp"
#include "check/idle_reads.hpp"
#include "check/launch_order.hpp"
#include "check/limits.hpp"
#include "check/names.hpp"
#include "check/overwritten.hpp"
#include "check/reuse.hpp"
#include "check/stages.hpp"

namespace tessera {
namespace {

using namespace check_detail;

/// Counts every usable dependence; `read[s]` has a flag for each tile of stage s.
std::vector<DependenceFacts> count_all(Pipeline const& pipeline, std::vector<bool> const& usable,
                                       std::vector<std::vector<bool>>& read, Diagnostics& errors,
                                       Diagnostics& warnings) {
  std::vector<DependenceFacts> facts;
  std::vector<IdleReads> idle;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < pipeline.dependences.size(); ++i) {
    if (!usable[i]) continue;
    auto const& dependence = pipeline.dependences[i];
    auto const producer = static_cast<std::size_t>(dependence.producer);
    read[producer].resize(static_cast<std::size_t>(pipeline.stages[producer].tiles()));
    auto const count = count_dependence(pipeline, dependence, steps, read[producer]);
    if (!count) {
      errors.push_back(
          {"E0112",
           Severity::error,
           place_of(pipeline, dependence),
           fmt::format("the tiles that {} reads of {} are too many to check exactly",
                       name_of(pipeline, dependence.consumer), name_of(pipeline, dependence.producer)),
           {fmt::format(
               "{} consumer tiles x {} accesses; counting takes a step for each of a tile's accesses, "
               "one more and those to join them, and all of a pipeline together {} steps at most",
               pipeline.stages[static_cast<std::size_t>(dependence.consumer)].tiles(),
               dependence.accesses.size(), k_max_evaluations)},
           "use larger tiles, or describe the reads with fewer, larger ranges; of a loop, check fewer "
           "iterations"});
      break;
    }
    report_reads(pipeline, dependence, *count, errors, warnings);
    facts.push_back(count->facts);
    if (count->idle_consumers > 0) idle.push_back({i, count->idle_consumers, count->first_idle_consumer});
  }
  if (errors.empty()) report_idle_reads(pipeline, idle, facts, warnings);
  return facts;
}

/// A tile that nobody reads is computed in vain, unless it leaves the pipeline.
void report_unread(Pipeline const& pipeline, std::vector<std::vector<bool>> const& read,
                   Diagnostics& warnings) {
  for (std::size_t s = 0; s + 1 < pipeline.stages.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    auto const unread = std::count(read[s].begin(), read[s].end(), false);
    // None is also what an output of the pipeline has; all is E0107's finding.
    if (unread == 0 || unread == std::ssize(read[s])) continue;
    auto const first = std::find(read[s].begin(), read[s].end(), false);
    warnings.push_back(
        {"E0108",
         Severity::warning,
         place_of(pipeline, stage),
         fmt::format("{} of {} {} never read", count_text(unread, "tile"), stage.name,
                     unread == 1 ? "is" : "are"),
         {fmt::format("first unread: {} ({} has {})", tile_name(stage, first - read[s].begin()), stage.name,
                      grid_text(stage))},
         "do the ranges of its consumers end too early?"});
  }
}

Diagnostic too_many_reuses(Pipeline const& pipeline) {
  return {
      "E0112",
      Severity::error,
      pipeline.where,
      fmt::format("the stages that use each other's buffers are too many to check: more than {} pairs of a "
                  "stage that writes a buffer and an earlier one that uses it",
                  k_max_reuses),
      {fmt::format("{} stages", pipeline.stages.size())},
      "check a part of it; of a loop, fewer iterations: more of them repeat what these do"};
}

Diagnostic too_many_stages(Pipeline const& pipeline) {
  return {"E0112",
          Severity::error,
          pipeline.where,
          fmt::format("pipeline \"{}\" has {} stages; at most {} are checked", pipeline.name,
                      pipeline.stages.size(), k_max_stages),
          {},
          "check a part of it; of a loop, fewer iterations: more of them repeat what these do"};
}

}  // namespace

Expected<CheckedPipeline> check(Pipeline const& pipeline) {
  if (std::ssize(pipeline.stages) > k_max_stages) return refuse(too_many_stages(pipeline));
  Diagnostics errors;
  Diagnostics warnings;
  auto const usable_stages = check_stages(pipeline, errors);
  auto const usable = check_dependences(pipeline, usable_stages, errors);
  check_launch_order(pipeline, errors);

  std::vector<std::vector<bool>> read(pipeline.stages.size());
  auto facts = count_all(pipeline, usable, read, errors, warnings);
  if (errors.empty()) check_overwritten(pipeline, errors, warnings);
  if (!errors.empty()) {
    errors.insert(errors.end(), warnings.begin(), warnings.end());
    return tl::make_unexpected(std::move(errors));
  }
  report_unread(pipeline, read, warnings);

  CheckedPipeline checked;
  checked.pipeline_ = pipeline;
  checked.facts_ = std::move(facts);
  checked.reuses_ = find_reuses(pipeline);
  if (std::ssize(checked.reuses_) > k_max_reuses) return refuse(too_many_reuses(pipeline));
  decide_reuses(pipeline, checked.reuses_);
  checked.warnings_ = std::move(warnings);
  return checked;
}

}  // namespace tessera
