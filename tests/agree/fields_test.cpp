// SPDX-License-Identifier: Apache-2.0
// Every field of a plan against everyone who reads plans: each honours it, so that what it makes of the plan
// changes, or refuses the plan. Where a reader has no use for a field, the row says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/plans.hpp"
#include "tessera/generate/generate.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/run/runtime_tables.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::make_stage;

MachineProfile machine() {
  auto m = support::ideal_machine(4);
  m.launch_ns = 2000;
  m.stream_gap_ns = 900;
  m.pdl_gap_ns = 300;
  m.pdl_grid_wait_ns = 700;
  m.stream_start_ns = 1200;
  m.block_start_ns = 200;
  m.post_ns = 300;
  m.store_post_ns = 100;
  m.wait_ns = 500;
  m.ticket_ns = 250;
  m.dram_gbps = 1000;
  m.l2_gbps = 3000;
  m.l2_mib = 16;
  return m;
}

/// a > b > [c d]: b waits for tiles of a, c for all of b, d for tiles of c.
Plan mixed() {
  Pipeline p;
  p.name = "fields";
  for (char const* const name : {"a", "b", "c", "d"}) {
    auto const stage = static_cast<int>(p.stages.size());
    p.stages.push_back(make_stage(name, 3, 3, 4 - stage));
    p.stages.back().k_steps = 4;
    p.stages.back().operands = {{"a", stage == 0 ? "x" : p.stages[p.stages.size() - 2].name, 1e4, 1e5},
                                {"b", "w" + std::string(name), 4e5, 4e6}};
    if (stage > 0) p.dependences.push_back(support::tile_dependence(stage, stage - 1));
  }
  auto plan = support::make_plan(p, machine(), Mechanism::pdl_tiles);
  plan.launches = {{0, 1, LaunchStart::in_order, false, 0, {}},
                   {1, 1, LaunchStart::early, false, 0, {}},
                   {2, 2, LaunchStart::early, false, 3, {}}};
  plan.dependences[1].semaphore_set = -1;
  // Sets that nobody awaits are no part of a plan.
  plan.semaphores.erase(plan.semaphores.begin() + 1);
  plan.semaphores[1].first = plan.semaphores[0].count;
  plan.dependences[2].semaphore_set = 1;
  return plan;
}

Plan split() {
  auto plan = mixed();
  plan.pipeline.stages[0].splits = 2;
  return plan;
}

/// Three streams, the later ones behind wait kernels.
Plan streams() {
  auto p = mixed().pipeline;
  p.stages.pop_back();
  p.dependences.pop_back();
  return support::make_plan(p, machine(), Mechanism::wait_kernel);
}

std::string refusal(Diagnostics const& why) { return "refused " + why.front().code; }

std::string file(Plan const& plan) {
  auto const text = print_plan(plan);
  auto const again = parse_plan(text, "plan.json");
  if (!again) return refusal(again.error());
  EXPECT_EQ(print_plan(*again), text);
  return text;
}

std::string proof(Plan const& plan) {
  auto const result = prove_progress(plan, machine());
  return result ? *result : refusal(result.error());
}

std::string simulated(Plan const& plan) {
  auto const timeline = simulate(plan, machine());
  if (!timeline) return refusal(timeline.error());
  std::string text;
  for (auto const& tile : timeline->tiles)
    text += fmt::format("{} {} {} {} {} {}\n", tile.stage, tile.tile, tile.split, tile.sm, tile.started,
                        tile.posted);
  return text;
}

/// Tiles in the order in which one thread computes them: with several, the order is anybody's.
std::string interpreted(Plan const& plan) {
  std::string text;
  std::vector<TileFunction> functions;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    functions.push_back(
        [&text, s](std::int64_t tile, int split) { text += fmt::format("{} {} {}\n", s, tile, split); });
  InterpretOptions options;
  options.workers = 1;
  auto const done = interpret(plan, functions, options);
  return done ? text : refusal(done.error());
}

std::string header(Plan const& plan) {
  auto text = generate_header(plan);
  return text ? *text : refusal(text.error());
}

std::string described(RuntimeSet const& set) {
  std::string text = fmt::format("set {} x{}", set.first, set.posts);
  for (int const scale : set.scale) text += fmt::format(" {}", scale);
  return text;
}

/// What kernels read at run time.
std::string tables(Plan const& plan) {
  if (auto const faults = launch_faults(plan); !faults.empty())
    return "refused E0510";  // as Chain::make() does first
  auto const made = describe_stages(plan);
  if (!made) return refusal(made.error());
  std::string text;
  for (std::size_t s = 0; s < made->stages.size(); ++s) {
    auto const& stage = made->stages[s];
    text += fmt::format("{}: {} splits, start {}{}{}{}{}{}{}{}{}, persistent {}, {} before store\n", s,
                        stage.splits, static_cast<int>(stage.start), stage.custom_order, stage.reorder_loads,
                        stage.plain_store, stage.triggers_at_start, stage.stores_after_grid,
                        stage.completes_after_previous, stage.announces_start, stage.needs_epoch,
                        stage.persistent_blocks, stage.before_stores);
    for (auto const& operand : stage.operand)
      text += fmt::format("  {}{}{} {}\n", operand.produced, operand.waits_for_grid, operand.has_set,
                          described(operand.set));
    text += fmt::format("  posts {}: {}\n", stage.posts, described(stage.post));
  }
  for (auto const& launch : made->launches)
    text += fmt::format("launch {} {} {} {}{}\n", launch.tickets, launch.workers, launch.first_stage,
                        launch.triggers_at_start, launch.completes_after_previous);
  for (auto const number : made->numbers) text += fmt::format(" {}", number);
  for (auto const& wait : made->waits) text += fmt::format(" {}:{}", wait.semaphore, wait.posts);
  return text;
}

struct Reader {
  char const* name;
  std::string (*read)(Plan const&);
};
constexpr Reader k_readers[] = {{"file", file},           {"proof", proof},
                                {"simulator", simulated}, {"interpreter", interpreted},
                                {"header", header},       {"tables", tables}};

/// What each reader does, in the order of k_readers: h honours (its answer changes), r refuses, - has no use
/// for it.
struct Row {
  char const* field;
  Plan (*base)();
  std::function<void(Plan&)> change;
  char const* readers;
};

/// Of stages of nine tiles, one of each stage in turn.
std::vector<Launch::Ticket> all_tickets(int first, int end) {
  std::vector<Launch::Ticket> tickets;
  for (std::int32_t position = 0; position < 9; ++position)
    for (int s = first; s < end; ++s) tickets.push_back({s, position});
  return tickets;
}

std::vector<Row> rows() {
  return {
      // The proof's words name who starts after whom. One thread takes the oldest launch first, whatever its
      // start.
      {"launches.start", mixed, [](Plan& p) { p.launches[1].start = LaunchStart::in_order; }, "hhh-hh"},
      {"launches.start, first", mixed, [](Plan& p) { p.launches[0].start = LaunchStart::early; }, "h-h-hh"},
      {"launches.wait_kernel", streams, [](Plan& p) { p.launches[2].wait_kernel = false; }, "hrh-hh"},
      {"launches.stages", mixed, [](Plan& p) { p.launches.pop_back(); }, "rrrrrr"},
      {"launches.workers", mixed, [](Plan& p) { p.launches[2].workers = 2; }, "hhh-hh"},
      {"launches.workers, none", mixed, [](Plan& p) { p.launches[2].workers = 0; }, "rrrrrr"},
      {"launches.tickets", mixed, [](Plan& p) { p.launches[2].tickets = all_tickets(2, 4); }, "hhhhhh"},
      {"stages.order", mixed,
       [](Plan& p) {
         p.stages[0].order = {"backwards", {8, 7, 6, 5, 4, 3, 2, 1, 0}};
       },
       "h-hhhh"},
      {"stages.custom_order", mixed, [](Plan& p) { p.stages[0].custom_order = false; }, "h-h-hh"},
      {"stages.reorder_loads", mixed, [](Plan& p) { p.stages[1].reorder_loads = true; }, "h-h-hh"},
      {"stages.plain_store", mixed, [](Plan& p) { p.stages[0].plain_store = true; }, "h-h-hh"},
      {"stages.persistent_blocks", mixed, [](Plan& p) { p.stages[0].persistent_blocks = 4; }, "h-hhhh"},
      // For the kernel's binding, which the registry's tests look at; who includes a header may read it
      // there.
      {"stages.variant", mixed, [](Plan& p) { p.stages[1].variant = "algorithm 7"; }, "h---h-"},
      {"semaphores.map", mixed,
       [](Plan& p) {
         for (auto& dimension : p.semaphores[0].map.dimension) dimension = {Grouping::all, 1};
         p.semaphores[0].policy = "GridSync";
         p.semaphores[0].count = 1;
         p.semaphores[1].first = 1;
       },
       "h-h-hh"},
      {"semaphores.map, table", mixed,
       [](Plan& p) {
         p.semaphores[0].map = table_map({0, 1, 2, 0, 1, 2, 0, 1, 2});
         p.semaphores[0].policy = "TableSync";
         p.semaphores[0].count = 3;
         p.semaphores[1].first = 3;
       },
       "h-h-hh"},
      {"dependences.semaphore_set", mixed,
       [](Plan& p) {
         p.dependences[0].semaphore_set = -1;
         p.semaphores.erase(p.semaphores.begin());
         p.semaphores[0].first = 0;
         p.dependences[2].semaphore_set = 0;
       },
       "h-h-hh"},
      {"dependences.semaphore_set, unkept", mixed,
       [](Plan& p) {
         p.dependences[2].semaphore_set = -1;
         p.semaphores.pop_back();
       },
       "rrrrrr"},
      {"reuse_edges", mixed,
       [](Plan& p) {
         p.reuse_edges.push_back({1, 0, "x", -1});
       },
       "h-h-hh"},
      // Who has a machine to hold the plan against gets it beside; a header says which it was.
      {"machine_values", mixed,
       [](Plan& p) { p.machine_values = planning_values(tessera::machine("h200").value(), p.pipeline); },
       "h---h-"},
      {"pipeline.splits", mixed, [](Plan& p) { p.pipeline.stages[1].splits = 2; }, "hhhhhh"},
      // Posts are counted as those of all splits, whoever makes them: only a header has to know.
      {"pipeline.last_split_posts", split, [](Plan& p) { p.pipeline.stages[0].last_split_posts = true; },
       "h---r-"},
      {"pipeline.block_time", mixed,
       [](Plan& p) {
         p.pipeline.stages[1].block_time = {5000, 2000, 0};
       },
       "h-h---"},
      {"pipeline.on_complete", mixed,
       [](Plan& p) { p.pipeline.dependences[0].on_complete = OnComplete::start_peer_copy; }, "rrrrrr"},
  };
}

TEST(Agree, EveryFieldIsHonouredOrRefusedByEveryReader) {
  for (auto const& row : rows()) {
    auto const base = row.base();
    auto changed = base;
    row.change(changed);
    for (std::size_t i = 0; i < std::size(k_readers); ++i) {
      auto const before = k_readers[i].read(base), after = k_readers[i].read(changed);
      EXPECT_FALSE(before.starts_with("refused")) << k_readers[i].name << ": " << before;
      char const found = after.starts_with("refused") ? 'r' : after == before ? '-' : 'h';
      EXPECT_EQ(found, row.readers[i])
          << row.field << " by the " << k_readers[i].name << (found == 'r' ? ": " + after : "");
    }
  }
}

}  // namespace
}  // namespace tessera
