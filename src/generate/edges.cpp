// SPDX-License-Identifier: Apache-2.0
#include "generate/edges.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generate/forms.hpp"
#include "generate/names.hpp"

namespace tessera::generate {
namespace {

void write_box(Writer& out, Plan const& plan, Dependence const& dependence) {
  auto const& consumer = plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  std::vector<bool> used(consumer.grid.size());
  for (auto const& access : dependence.accesses)
    for (auto const& range : access.ranges) {
      mark_dimensions(range.begin, used);
      mark_dimensions(range.end, used);
    }
  std::vector<std::string> names;
  for (std::size_t d = 0; d < consumer.grid.size(); ++d) {
    auto const& name = consumer.grid[d].name;
    bool const clear = is_identifier(name) && name != "tile" && name != "access" && name != "grids" &&
                       name != "tessera" && name.rfind("tile_at_", 0) != 0 &&
                       std::find(names.begin(), names.end(), name) == names.end();
    names.push_back(clear ? name : fmt::format("tile_at_{}", d));
  }
  bool const any = std::find(used.begin(), used.end(), true) != used.end();
  bool const several = dependence.accesses.size() > 1;
  out.line(fmt::format(
      "  TESSERA_HOST_DEVICE static constexpr tessera::TileBox box(int{}, tessera::Tile const&{}) {{",
      several ? " access" : "", any ? " tile" : ""));
  for (std::size_t d = 0; d < used.size(); ++d)
    if (used[d]) out.line(fmt::format("    long long const {} = tile.at[{}];", names[d], d));
  for (std::size_t a = 0; a < dependence.accesses.size(); ++a) {
    bool const last = a + 1 == dependence.accesses.size();
    std::string const head = last ? "    return " : fmt::format("    if (access == {}) return ", a);
    std::string one_line = head + fmt::format("tessera::cut_box(grids::{}()", producer.name);
    std::string lines = one_line;
    for (auto const& range : dependence.accesses[a].ranges) {
      auto const text =
          fmt::format("{{{}, {}}}", expression(range.begin, names), expression(range.end, names));
      one_line += ", " + text;
      lines += ",\n        " + text;
    }
    out.line((one_line.size() <= 98 ? one_line : lines) + ");");
  }
  if (dependence.accesses.empty()) out.line("    return {};");
  out.line("  }");
}

std::string set_type(Plan const& plan, PlannedDependence const& planned) {
  switch (kept_by(plan, planned)) {
    case KeptBy::semaphores: return "sets::" + set_name(plan, planned.semaphore_set);
    case KeptBy::grid_wait: return "tessera::WholeGrid";
    default: return "tessera::NoSet";
  }
}

}  // namespace

std::string place(Plan const& plan, Stage const& stage) {
  std::string text = fmt::format("plan {}, stage {}", plan.pipeline.name, stage.name);
  if (!stage.where.file.empty()) text += fmt::format(" ({}:{})", stage.where.file, stage.where.line);
  return as_string(text) + ": ";
}

std::string set_name(Plan const& plan, int set) {
  auto const producer = static_cast<std::size_t>(plan.semaphores[static_cast<std::size_t>(set)].producer);
  return joined(plan.pipeline.stages[producer].name, std::to_string(set));
}
std::string dependence_name(Plan const& plan, std::size_t index) {
  auto const& dependence = plan.pipeline.dependences[index];
  auto const& consumer = plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  return joined(joined(consumer.name, dependence.operand), std::to_string(index));
}

void write_grids(Writer& out, Pipeline const& pipeline) {
  out.open_namespace("grids");
  for (auto const& stage : pipeline.stages) {
    std::string dims, extents;
    for (auto const& dim : stage.grid) {
      dims += (dims.empty() ? "" : ", ") + as_comment(dim.name);
      extents += fmt::format("{}{}", extents.empty() ? "" : ", ", dim.extent);
    }
    for (auto d = stage.grid.size(); d < k_max_rank; ++d) extents += ", 1";
    out.line(fmt::format(
        "TESSERA_HOST_DEVICE constexpr tessera::TileGrid {}() {{ return {{{}, {{{}}}}}; }}  // {}",
        stage.name, stage.grid.size(), extents, dims));
  }
  out.close_namespace("grids");
}

void write_sets(Writer& out, Plan const& plan) {
  if (plan.semaphores.empty()) return;
  bool const tables = std::any_of(plan.semaphores.begin(), plan.semaphores.end(),
                                  [](SemaphoreSet const& set) { return set.map.is_table(); });
  if (tables) {
    out.open_namespace("maps");
    for (std::size_t i = 0; i < plan.semaphores.size(); ++i)
      if (auto const& set = plan.semaphores[i]; set.map.is_table()) {
        out.line(fmt::format("// linear tile -> semaphore: {}", as_comment(set.policy)));
        out.table(set_name(plan, static_cast<int>(i)), set.map.table);
      }
    out.close_namespace("maps");
  }
  out.open_namespace("sets");
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i) {
    auto const& set = plan.semaphores[i];
    auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
    auto const name = set_name(plan, static_cast<int>(i));
    out.line(fmt::format("// posted by {}: {}", producer.name, as_comment(set.policy)));
    out.line(fmt::format("struct {} {{", name));
    out.line(fmt::format("  using Policy = {};",
                         set.map.is_table() ? fmt::format("tessera::TablePolicy<maps::{}>", name)
                                            : policy_type(set.map, producer.tile_grid(), set.policy)));
    out.line(fmt::format(
        "  TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid() {{ return grids::{}(); }}",
        producer.name));
    out.line(fmt::format("  static constexpr int splits = {};", producer.splits));
    out.line(fmt::format("  static constexpr long long first = {};", set.first));
    out.line(fmt::format("  static constexpr long long count = {};", set.count));
    out.line("};");
    out.static_assertion(
        fmt::format("{0}::Policy{{}}.count(grids::{1}()) == {0}::count", name, producer.name),
        place(plan, producer) + "the policy's number of semaphores is not the plan's");
  }
  out.close_namespace("sets");
}

void write_dependences(Writer& out, Plan const& plan) {
  if (plan.pipeline.dependences.empty()) return;
  out.open_namespace("dependences");
  for (std::size_t i = 0; i < plan.pipeline.dependences.size(); ++i) {
    auto const& dependence = plan.pipeline.dependences[i];
    auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)];
    out.line(fmt::format("// {} of {} <- {}", dependence.operand,
                         plan.pipeline.stages[static_cast<std::size_t>(dependence.consumer)].name,
                         producer.name));
    out.line(fmt::format("struct {} {{", dependence_name(plan, i)));
    out.line(fmt::format("  using Set = {};", set_type(plan, plan.dependences[i])));
    out.line(fmt::format("  static constexpr int accesses = {};", dependence.accesses.size()));
    write_box(out, plan, dependence);
    out.line("};");
  }
  out.close_namespace("dependences");
}

}  // namespace tessera::generate
