// SPDX-License-Identifier: Apache-2.0
#include "check/dependences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "check/expressions.hpp"
#include "check/names.hpp"
#include "diagnostic/nearest.hpp"

namespace tessera::check_detail {
namespace {

bool is_stage(Pipeline const& pipeline, int index) {
  return index >= 0 && index < static_cast<int>(pipeline.stages.size());
}

bool has_operand(Stage const& stage, std::string const& name) {
  return std::any_of(stage.operands.begin(), stage.operands.end(),
                     [&](Operand const& o) { return o.name == name; });
}

bool check_stages_of(Pipeline const& pipeline, Dependence const& dependence, Diagnostics& found) {
  for (auto const& [role, index] :
       {std::pair{"consumer", dependence.consumer}, std::pair{"producer", dependence.producer}})
    if (!is_stage(pipeline, index)) {
      found.push_back({"E0102",
                       Severity::error,
                       place_of(pipeline, dependence),
                       fmt::format("the {} of a dependence is stage {}, which does not exist", role, index),
                       {fmt::format("pipeline \"{}\" has {}", pipeline.name,
                                    count_text(static_cast<std::int64_t>(pipeline.stages.size()), "stage"))},
                       ""});
      return false;
    }
  return true;
}

void check_operand(Pipeline const& pipeline, Dependence const& dependence, Diagnostics& found) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const consumer_name = name_of(pipeline, dependence.consumer);
  auto const producer_name = name_of(pipeline, dependence.producer);
  auto const operand = std::find_if(consumer.operands.begin(), consumer.operands.end(),
                                    [&](Operand const& o) { return o.name == dependence.operand; });
  if (operand == consumer.operands.end()) {
    std::vector<std::string> names;
    for (auto const& o : consumer.operands) names.push_back(o.name);
    auto hint = did_you_mean(dependence.operand, names);
    if (hint.empty())
      hint = fmt::format("give {} an operand \"{}\" that reads {}", consumer_name, dependence.operand,
                         producer.output.empty() ? producer_name : "buffer " + producer.output);
    found.push_back(
        {"E0106",
         Severity::error,
         place_of(pipeline, dependence),
         fmt::format("the dependence of {} on {} goes through operand \"{}\", which {} does not have",
                     consumer_name, producer_name, dependence.operand, consumer_name),
         {names.empty() ? fmt::format("{} has no operands", consumer_name)
                        : fmt::format("operands of {}: {}", consumer_name, list_of(names))},
         std::move(hint)});
    return;
  }
  if (operand->buffer != producer.output && !operand->buffer.empty() && !producer.output.empty())
    found.push_back(
        {"E0106",
         Severity::error,
         place_of(pipeline, dependence),
         fmt::format("operand {} of {} is not what {} writes", operand->name, consumer_name, producer_name),
         {fmt::format("{}.{} reads buffer {}; {} writes buffer {}", consumer_name, operand->name,
                      operand->buffer, producer_name, producer.output)},
         fmt::format("let the operand read {}, or depend on the stage that writes {}", producer.output,
                     operand->buffer)});
}

/// The same tiles through the same operand twice would be waited for twice.
void check_given_once(Pipeline const& pipeline, std::size_t index, Diagnostics& found) {
  auto const& one = pipeline.dependences[index];
  for (std::size_t earlier = 0; earlier < index; ++earlier) {
    auto const& other = pipeline.dependences[earlier];
    if (other.consumer != one.consumer || other.producer != one.producer || other.operand != one.operand ||
        other.accesses != one.accesses)
      continue;
    found.push_back(
        {"E0106",
         Severity::error,
         place_of(pipeline, one),
         fmt::format("the dependence of {} on {} through {} is given twice", name_of(pipeline, one.consumer),
                     name_of(pipeline, one.producer), one.operand),
         {},
         "remove one of them"});
    return;
  }
}

bool check_access(Pipeline const& pipeline, Dependence const& dependence, std::size_t index,
                  Diagnostics& found) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const& access = dependence.accesses[index];
  auto const producer_name = name_of(pipeline, dependence.producer);
  auto const pair =
      fmt::format("the dependence of {} on {}", name_of(pipeline, dependence.consumer), producer_name);
  if (access.ranges.size() != producer.grid.size()) {
    found.push_back(
        {"E0105",
         Severity::error,
         place_of(pipeline, dependence),
         fmt::format("{} names tiles of {} by {}, but {} has {}", pair, producer_name,
                     count_text(static_cast<std::int64_t>(access.ranges.size()), "coordinate"), producer_name,
                     count_text(static_cast<std::int64_t>(producer.grid.size()), "dimension")),
         {fmt::format("the grid of {} is ({})", producer_name, fmt::join(producer.dimension_names(), ", "))},
         "give one coordinate or range for each dimension of the producer, in its order"});
    return false;
  }
  bool sound = true;
  for (std::size_t d = 0; d < access.ranges.size(); ++d) {
    auto fault = fault_of(access.ranges[d].begin, consumer);
    if (!fault) fault = fault_of(access.ranges[d].end, consumer);
    if (!fault) continue;
    found.push_back({fault->code,
                     Severity::error,
                     place_of(pipeline, dependence),
                     fmt::format("in {}, the expression for {}'s {} {}", pair, producer_name,
                                 producer.grid[d].name, fault->message),
                     {},
                     fault->suggestion});
    sound = false;
  }
  return sound;
}

void check_policy(Pipeline const& pipeline, Dependence const& dependence, Diagnostics& found) {
  if (!dependence.policy) return;
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const problem = problem_of(dependence.policy->map, producer.tile_grid());
  if (problem.empty()) return;
  found.push_back(
      {"E0113",
       Severity::error,
       place_of(pipeline, dependence),
       fmt::format("the policy {}for what {} reads of {} cannot be used: {}",
                   dependence.policy->name.empty() ? "" : dependence.policy->name + " ",
                   name_of(pipeline, dependence.consumer), producer.name, problem),
       {},
       fmt::format("give each tile of {} a semaphore, counted from 0 without gaps", producer.name)});
}

/// A stage that reads what an earlier stage wrote, without saying which tiles, would not wait for it.
void check_operands_have_dependences(Pipeline const& pipeline, Diagnostics& found) {
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s) {
    auto const& stage = pipeline.stages[static_cast<std::size_t>(s)];
    for (auto const& operand : stage.operands) {
      int writer = s - 1;
      while (writer >= 0 && pipeline.stages[static_cast<std::size_t>(writer)].output != operand.buffer)
        --writer;
      if (writer < 0 || operand.buffer.empty()) continue;
      auto const through = [&](Dependence const& d) { return d.consumer == s && d.operand == operand.name; };
      // A dependence with a mistake of its own is not reported a second time.
      auto const mistaken = [&](Dependence const& d) {
        return (through(d) && (!is_stage(pipeline, d.producer) || d.producer >= s)) ||
               (d.consumer == s && d.producer == writer && !has_operand(stage, d.operand));
      };
      auto const awaited = [&](Dependence const& d) {
        return (through(d) && d.producer == writer) || mistaken(d);
      };
      auto const& all = pipeline.dependences;
      if (std::any_of(all.begin(), all.end(), awaited)) continue;
      auto const writer_name = name_of(pipeline, writer);
      auto const older = std::find_if(all.begin(), all.end(), [&](Dependence const& d) {
        return through(d) && is_stage(pipeline, d.producer) && d.producer < writer;
      });
      std::vector<std::string> notes;
      if (older != all.end())
        notes.push_back(fmt::format("{}.{} depends on {}, but {} overwrites {} before {} reads it",
                                    name_of(pipeline, s), operand.name, name_of(pipeline, older->producer),
                                    writer_name, operand.buffer, name_of(pipeline, s)));
      found.push_back(
          {"E0110", Severity::error, place_of(pipeline, stage),
           fmt::format("operand {} of {} reads {}, which {} writes, but no dependence says which "
                       "tiles of {} it needs",
                       operand.name, name_of(pipeline, s), operand.buffer, writer_name, writer_name),
           std::move(notes),
           fmt::format("add a dependence of {} on {} through {}, or name another buffer",
                       name_of(pipeline, s), writer_name, operand.name)});
    }
  }
}

}  // namespace

std::vector<bool> check_dependences(Pipeline const& pipeline, std::vector<bool> const& usable_stages,
                                    Diagnostics& found) {
  std::vector<bool> usable;
  for (std::size_t i = 0; i < pipeline.dependences.size(); ++i) {
    auto const& dependence = pipeline.dependences[i];
    usable.push_back(false);
    if (!check_stages_of(pipeline, dependence, found)) continue;
    check_given_once(pipeline, i, found);
    check_operand(pipeline, dependence, found);
    if (!usable_stages[static_cast<std::size_t>(dependence.consumer)] ||
        !usable_stages[static_cast<std::size_t>(dependence.producer)])
      continue;
    bool sound = true;
    for (std::size_t a = 0; a < dependence.accesses.size(); ++a)
      sound = check_access(pipeline, dependence, a, found) && sound;
    usable.back() = sound;
    check_policy(pipeline, dependence, found);
  }
  check_operands_have_dependences(pipeline, found);
  return usable;
}

}  // namespace tessera::check_detail
