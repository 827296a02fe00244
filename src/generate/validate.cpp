// SPDX-License-Identifier: Apache-2.0
#include "generate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "generate/macro_names.hpp"
#include "generate/names.hpp"
#include "tessera/plan/launch_faults.hpp"

namespace tessera::generate {
namespace {

// The header's namespaces and its struct of the whole chain; then the members of the structs that have a
// stage's name, because no member may be called as its struct. tests/generate/nasty_names_test.cpp compiles.
constexpr std::string_view k_header_names[] = {"chain",
                                               "dependences",
                                               "grids",
                                               "maps",
                                               "orders",
                                               "sets",
                                               "tessera",
                                               "workers",
                                               "BeforeStore",
                                               "Operands",
                                               "Order",
                                               "Posts",
                                               "Tickets",
                                               "announces_start",
                                               "completes_after_previous",
                                               "custom_order",
                                               "first_stage",
                                               "grid",
                                               "index",
                                               "persistent_blocks",
                                               "plain_store",
                                               "reorder_loads",
                                               "splits",
                                               "start",
                                               "table",
                                               "threads",
                                               "tickets",
                                               "triggers_at_start",
                                               "variant",
                                               "wait_kernel"};

void check_name(Diagnostics& found, SourceLine const& where, std::string_view what, std::string_view name) {
  if (is_identifier(name)) return;
  if (is_macro(name)) {
    found.push_back(
        {"E0401",
         Severity::error,
         where,
         fmt::format("{} \"{}\" is a macro of the compiler's, CUDA's or the C library's headers", what, name),
         {},
         "give it another name: no namespace keeps a macro out"});
    return;
  }
  found.push_back({"E0401",
                   Severity::error,
                   where,
                   fmt::format("{} \"{}\" is not a name that C++ allows", what, as_comment(name)),
                   {},
                   "use letters, digits and single underscores, starting with a letter; no C++ keyword"});
}

void contradiction(Diagnostics& found, SourceLine const& where, std::string message) {
  found.push_back({"E0403",
                   Severity::error,
                   where,
                   std::move(message),
                   {},
                   "generate headers from plans that choose() or parse_plan() returned"});
}

bool fits_grid(Stage const& stage) {
  if (stage.grid.empty() || stage.grid.size() > k_max_rank || stage.splits < 1) return false;
  std::int64_t blocks = stage.splits;
  for (auto const& dim : stage.grid) {
    if (dim.extent < 1 || dim.extent > std::numeric_limits<std::int32_t>::max() / blocks) return false;
    blocks *= dim.extent;
  }
  return true;
}

/// A launch of workers keeps its tickets under its first stage's name and "_tickets", beside tile orders.
bool is_name_of_tickets(Plan const& plan, std::string const& name) {
  auto const& stages = plan.pipeline.stages;
  return std::any_of(plan.launches.begin(), plan.launches.end(), [&](Launch const& launch) {
    return launch.workers > 0 && launch.first >= 0 && launch.first < static_cast<int>(stages.size()) &&
           name == joined(stages[static_cast<std::size_t>(launch.first)].name, "tickets");
  });
}

void check_stages(Diagnostics& found, Plan const& plan) {
  std::map<std::string, SourceLine> seen;
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    check_name(found, stage.where, "stage name", stage.name);
    for (auto const& operand : stage.operands) check_name(found, stage.where, "operand name", operand.name);
    for (auto const taken : k_header_names)
      if (stage.name == taken)
        found.push_back({"E0402",
                         Severity::error,
                         stage.where,
                         fmt::format("stage name \"{}\" is used by the generated header itself", stage.name),
                         {},
                         "give the stage another name"});
    if (auto const [place, fresh] = seen.emplace(stage.name, stage.where); !fresh)
      found.push_back({"E0402",
                       Severity::error,
                       stage.where,
                       fmt::format("two stages are named \"{}\"", stage.name),
                       {fmt::format("the first is at {}:{}", place->second.file, place->second.line)},
                       "give every stage its own name"});
    if (is_name_of_tickets(plan, stage.name))
      found.push_back(
          {"E0402",
           Severity::error,
           stage.where,
           fmt::format("stage name \"{}\" is that of a table of tickets in the generated header", stage.name),
           {},
           "give the stage another name"});
    if (!fits_grid(stage))
      contradiction(found, stage.where,
                    fmt::format("stage {} needs 1 to 4 dimensions and 1 to 2^31 - 1 blocks", stage.name));
    else if (auto const& table = plan.stages[s].order.table; !table.empty()) {
      std::vector<bool> used(static_cast<std::size_t>(stage.tiles()));
      bool permutation = table.size() == used.size();
      for (std::size_t i = 0; permutation && i < table.size(); ++i) {
        auto const tile = static_cast<std::size_t>(table[i]);
        permutation = table[i] >= 0 && tile < used.size() && !used[tile];
        if (permutation) used[tile] = true;
      }
      if (!permutation)
        contradiction(found, stage.where,
                      fmt::format("tile order \"{}\" of stage {} does not name each of its {} tiles once",
                                  as_comment(plan.stages[s].order.name), stage.name, stage.tiles()));
    }
  }
}

bool is_stage(Plan const& plan, int stage) {
  return stage >= 0 && stage < static_cast<int>(plan.pipeline.stages.size());
}
bool is_set_of(Plan const& plan, int set, int producer) {
  return set == -1 || (set >= 0 && set < static_cast<int>(plan.semaphores.size()) &&
                       plan.semaphores[static_cast<std::size_t>(set)].producer == producer);
}

void check_sets(Diagnostics& found, Plan const& plan) {
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i) {
    auto const& set = plan.semaphores[i];
    bool sound = is_stage(plan, set.producer) && set.first >= 0 && set.count >= 0;
    if (sound) {
      auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
      sound = fits_grid(producer) && problem_of(set.map, producer.tile_grid()).empty() &&
              set.count == set.map.count(producer.tile_grid()) &&
              set.first <= std::numeric_limits<std::int32_t>::max() - set.count;
    }
    if (!sound) {
      contradiction(found, plan.pipeline.where,
                    fmt::format("semaphore set {} does not fit the grid of its producer", i));
      continue;
    }
    auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
    if (producer.last_split_posts && producer.splits > 1)
      found.push_back(
          {"E0404",
           Severity::error,
           producer.where,
           fmt::format("the last of {}'s {} splits posts for all, and the stages of a header post "
                       "for themselves",
                       producer.name, producer.splits),
           {},
           "let every split post, or run the plan through Executable and PersistentStageView"});
  }
}

bool only_known_dimensions(TileExpr const& expr, std::int64_t rank) {
  if (expr.op == TileExpr::Op::dimension && (expr.value < 0 || expr.value >= rank)) return false;
  bool const binary =
      expr.op == TileExpr::Op::add || expr.op == TileExpr::Op::minimum || expr.op == TileExpr::Op::maximum;
  bool const leaf = expr.op == TileExpr::Op::constant || expr.op == TileExpr::Op::dimension;
  if (expr.arguments.size() != (binary ? 2u : leaf ? 0u : 1u)) return false;
  if ((expr.op == TileExpr::Op::floor_div || expr.op == TileExpr::Op::modulo) && expr.value < 1) return false;
  for (auto const& argument : expr.arguments)
    if (!only_known_dimensions(argument, rank)) return false;
  return true;
}

void check_dependences(Diagnostics& found, Plan const& plan) {
  for (std::size_t i = 0; i < plan.pipeline.dependences.size(); ++i) {
    auto const& dependence = plan.pipeline.dependences[i];
    bool sound = is_stage(plan, dependence.consumer) && is_stage(plan, dependence.producer) &&
                 is_set_of(plan, plan.dependences[i].semaphore_set, dependence.producer);
    if (sound) {
      check_name(found, dependence.where, "operand name", dependence.operand);
      auto const& consumer = plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
      auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)];
      for (auto const& access : dependence.accesses) {
        sound = sound && access.ranges.size() == producer.grid.size();
        for (auto const& range : access.ranges)
          sound = sound &&
                  only_known_dimensions(range.begin, static_cast<std::int64_t>(consumer.grid.size())) &&
                  only_known_dimensions(range.end, static_cast<std::int64_t>(consumer.grid.size()));
      }
    }
    if (!sound)
      contradiction(found, dependence.where, fmt::format("dependence {} does not fit the plan's stages", i));
  }
  for (auto const& edge : plan.reuse_edges)
    if (!is_stage(plan, edge.writer) || !is_stage(plan, edge.reader) ||
        !is_set_of(plan, edge.semaphore_set, edge.reader))
      contradiction(
          found, plan.pipeline.where,
          fmt::format("the reuse of buffer \"{}\" does not fit the plan's stages", as_comment(edge.buffer)));
}

void check_launches(Diagnostics& found, Plan const& plan) {
  for (auto const& fault : launch_faults(plan)) contradiction(found, plan.pipeline.where, fault.message);
}

}  // namespace

Diagnostics find_obstacles(Plan const& plan) {
  Diagnostics found;
  if (plan.pipeline.stages.empty() || plan.stages.size() != plan.pipeline.stages.size() ||
      plan.dependences.size() != plan.pipeline.dependences.size()) {
    contradiction(
        found, plan.pipeline.where,
        fmt::format("the plan has {} stages and {} dependences, its pipeline {} and {}", plan.stages.size(),
                    plan.dependences.size(), plan.pipeline.stages.size(), plan.pipeline.dependences.size()));
    return found;
  }
  check_stages(found, plan);
  check_sets(found, plan);
  check_dependences(found, plan);
  if (found.empty()) check_launches(found, plan);
  return found;
}

}  // namespace tessera::generate
