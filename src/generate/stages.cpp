// SPDX-License-Identifier: Apache-2.0
#include "generate/stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generate/edges.hpp"
#include "generate/forms.hpp"
#include "generate/names.hpp"

namespace tessera::generate {
namespace {

/// The stage's order as a type; writes a table first where there is no closed form.
std::string write_order(Writer& out, Stage const& stage, StagePlan const& plan) {
  auto const& table = plan.order.table;
  bool straight = true;
  for (std::size_t i = 0; i < table.size(); ++i)
    straight = straight && table[i] == static_cast<std::int32_t>(i);
  if (straight || !plan.custom_order) return "tessera::RowMajor";
  if (auto const digits = closed_form(table)) {
    std::string type = "tessera::DigitOrder<";
    for (std::size_t d = 0; d < digits->size(); ++d)
      type +=
          fmt::format("{}tessera::Digit<{}, {}>", d > 0 ? ", " : "", (*digits)[d].radix, (*digits)[d].weight);
    return type + ">";
  }
  out.open_namespace("orders");
  out.line(fmt::format("// position -> linear tile: {}", as_comment(plan.order.name)));
  out.table(stage.name, table);
  out.close_namespace("orders");
  return fmt::format("tessera::TableOrder<orders::{}>", stage.name);
}

/// Operands in the stage's order, then those that only dependences name.
std::string operand_types(Plan const& plan, int stage_index) {
  auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(stage_index)];
  std::vector<std::string> names;
  for (auto const& operand : stage.operands) names.push_back(operand.name);
  for (auto const& dependence : plan.pipeline.dependences)
    if (dependence.consumer == stage_index &&
        std::find(names.begin(), names.end(), dependence.operand) == names.end())
      names.push_back(dependence.operand);
  std::string types;
  for (auto const& name : names) {
    std::string produced;
    for (std::size_t i = 0; i < plan.pipeline.dependences.size(); ++i) {
      auto const& dependence = plan.pipeline.dependences[i];
      if (dependence.consumer == stage_index && dependence.operand == name)
        produced += (produced.empty() ? "" : ", ") + ("dependences::" + dependence_name(plan, i));
    }
    types += (types.empty() ? "" : ", ") +
             (produced.empty() ? std::string("tessera::External") : "tessera::After<" + produced + ">");
  }
  return "tessera::Operands<" + types + ">";
}

std::string operand_names(Plan const& plan, Stage const& stage) {
  std::string text;
  for (auto const& operand : stage.operands) text += (text.empty() ? "" : ", ") + operand.name;
  if (!text.empty()) return text;
  auto const index = find_stage(plan.pipeline, stage.name);
  for (auto const& dependence : plan.pipeline.dependences)
    if (dependence.consumer == index) text += (text.empty() ? "" : ", ") + dependence.operand;
  return text;
}

bool is_one_launch_of_workers(Plan const& plan) {
  return plan.launches.size() == 1 && plan.launches.front().workers > 0;
}

void write_ticket_table(Writer& out, Launch const& launch, std::string const& name) {
  if (launch.tickets.empty()) return;
  std::vector<std::int32_t> pairs;
  for (auto const& ticket : launch.tickets) {
    pairs.push_back(ticket.stage);
    pairs.push_back(ticket.position);
  }
  out.open_namespace("orders");
  out.line("// ticket -> stage, block number");
  out.table(name, pairs);
  out.close_namespace("orders");
}

/// What Worker reads, as members of a struct. `table`: the name of the launch's tickets.
void write_worker_members(Writer& out, Plan const& plan, Launch const& launch, std::string const& table) {
  auto const duties = duties_of(plan, launch.first);
  auto const space = as_identifier(plan.pipeline.name);
  std::int64_t blocks = 0;
  std::string names;
  for (int s = launch.first; s < launch.end(); ++s) {
    auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(s)];
    blocks += stage.blocks();
    names += fmt::format("{}::{}::{}", names.empty() ? "" : ", ", space, stage.name);
  }
  out.line(fmt::format("  static constexpr int first_stage = {};", launch.first));
  out.line(fmt::format("  static constexpr int workers = {};", launch.workers));
  out.line(fmt::format("  static constexpr long long tickets = {};", blocks));
  out.line(launch.tickets.empty()
               ? fmt::format("  using Tickets = tessera::StageByStage<{}>;", names)
               : fmt::format("  using Tickets = tessera::TicketTable<::{}::orders::{}>;", space, table));
  out.line(fmt::format("  static constexpr bool triggers_at_start = {};", duties.triggers));
  out.line(fmt::format("  static constexpr bool completes_after_previous = {};", duties.completes_after));
}

}  // namespace

std::string grid_text(Stage const& stage) {
  std::string text;
  for (auto const& dim : stage.grid) text += fmt::format("{}{}", text.empty() ? "" : " x ", dim.extent);
  text += " tiles";
  if (stage.splits > 1) text += fmt::format(" x {} splits", stage.splits);
  return text;
}

void write_stage(Writer& out, Plan const& plan, int index) {
  auto const s = static_cast<std::size_t>(index);
  auto const& stage = plan.pipeline.stages[s];
  auto const& planned = plan.stages[s];
  auto const duties = duties_of(plan, index);
  auto const& launch = plan.launches[static_cast<std::size_t>(launch_of(plan, index))];
  auto const boolean = [](bool yes) { return yes ? "true" : "false"; };

  std::string posts, before_store;
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i)
    if (plan.semaphores[i].producer == index)
      posts += (posts.empty() ? "" : ", ") + ("sets::" + set_name(plan, static_cast<int>(i)));
  for (auto const& edge : plan.reuse_edges) {
    if (edge.writer != index) continue;
    auto const kept = kept_by(plan, edge);
    if (kept == KeptBy::completion) continue;
    before_store += (before_store.empty() ? "" : ", ") + (kept == KeptBy::semaphores
                                                              ? "sets::" + set_name(plan, edge.semaphore_set)
                                                              : std::string("tessera::WholeGrid"));
  }

  auto const order = write_order(out, stage, planned);
  out.line("");
  std::string title = fmt::format("{}: {}", stage.name, grid_text(stage));
  if (!stage.where.file.empty()) title += fmt::format(" ({}:{})", stage.where.file, stage.where.line);
  out.line("/// " + as_comment(title));
  out.line(fmt::format("struct {} {{", stage.name));
  out.line(fmt::format("  static constexpr int index = {};", index));
  out.line(
      fmt::format("  TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid() {{ return grids::{}(); }}",
                  stage.name));
  out.line(fmt::format("  static constexpr int splits = {};", stage.splits));
  out.line(fmt::format("  static constexpr int threads = {};", stage.resources.threads));
  out.line(fmt::format("  using Order = {};", order));
  out.line(fmt::format("  static constexpr tessera::Start start = tessera::Start::{};",
                       duties.start == Start::worker   ? "worker"
                       : duties.start == Start::ticket ? "ticket"
                                                       : "block_index"));
  out.line(fmt::format("  static constexpr bool custom_order = {};", boolean(planned.custom_order)));
  if (planned.persistent_blocks > 0 && launch.workers == 0)
    out.line(fmt::format("  static constexpr int persistent_blocks = {};", planned.persistent_blocks));
  if (!planned.variant.empty())
    out.line(fmt::format("  static constexpr char const* variant = \"{}\";", as_string(planned.variant)));
  out.line(fmt::format("  static constexpr bool wait_kernel = {};", boolean(launch.wait_kernel)));
  out.line(fmt::format("  static constexpr bool reorder_loads = {};", boolean(planned.reorder_loads)));
  out.line(fmt::format("  static constexpr bool plain_store = {};", boolean(planned.plain_store)));
  out.line(fmt::format("  static constexpr bool triggers_at_start = {};", boolean(duties.triggers)));
  out.line(
      fmt::format("  static constexpr bool completes_after_previous = {};", boolean(duties.completes_after)));
  out.line(fmt::format("  static constexpr bool announces_start = {};", boolean(duties.announces_start)));
  if (auto const names = operand_names(plan, stage); !names.empty()) out.line("  // " + names);
  out.line(fmt::format("  using Operands = {};", operand_types(plan, index)));
  out.line(fmt::format("  using Posts = tessera::Sets<{}>;", posts));
  out.line(fmt::format("  using BeforeStore = tessera::Sets<{}>;", before_store));
  out.line("};");
  out.static_assertion(fmt::format("tessera::StageView<{}>::blocks == {}", stage.name, stage.blocks()),
                       place(plan, stage) + "the number of blocks is not the plan's");
  if (order.starts_with("tessera::TableOrder"))
    out.static_assertion(fmt::format("orders::{0}::table().size == grids::{0}().tiles()", stage.name),
                         place(plan, stage) + "the tile order's length is not the number of tiles");
  if (order.starts_with("tessera::DigitOrder"))
    out.static_assertion(fmt::format("{0}::Order::tile_at(grids::{0}().tiles() - 1) == {1}", stage.name,
                                     planned.order.table.back()),
                         place(plan, stage) + "the tile order is not the plan's");
}

/// Tables first: they are in a namespace of their own.
void write_workers(Writer& out, Plan const& plan) {
  if (is_one_launch_of_workers(plan)) return;
  auto const first_name = [&](Launch const& launch) {
    return plan.pipeline.stages[static_cast<std::size_t>(launch.first)].name;
  };
  bool any = false;
  for (auto const& launch : plan.launches) {
    if (launch.workers > 0) write_ticket_table(out, launch, joined(first_name(launch), "tickets"));
    any = any || launch.workers > 0;
  }
  if (!any) return;
  out.open_namespace("workers");
  for (auto const& launch : plan.launches) {
    if (launch.workers == 0) continue;
    out.line(fmt::format("/// Persistent launch of {} blocks.", launch.workers));
    out.line(fmt::format("struct {} {{", first_name(launch)));
    write_worker_members(out, plan, launch, joined(first_name(launch), "tickets"));
    out.line("};");
  }
  out.close_namespace("workers");
}

void write_chain(Writer& out, Plan const& plan) {
  std::int64_t semaphores = 0;
  for (auto const& set : plan.semaphores) semaphores = std::max(semaphores, set.first + set.count);
  bool const workers = is_one_launch_of_workers(plan);
  if (workers) write_ticket_table(out, plan.launches.front(), "chain");
  out.line(
      "/// The whole chain. Allocate and zero `semaphores` words and `counters` 64-bit words once: "
      "ChainMemory.");
  out.line("struct chain {");
  out.line(fmt::format("  static constexpr int stages = {};", plan.stages.size()));
  out.line(fmt::format("  static constexpr long long semaphores = {};", semaphores));
  out.line("  static constexpr long long counters = tessera::counters_for(stages);");
  if (workers) write_worker_members(out, plan, plan.launches.front(), "chain");
  out.line("};");
}

}  // namespace tessera::generate
