// SPDX-License-Identifier: Apache-2.0
#include "plan/assemble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/reuse_keys.hpp"
#include "tessera/plan/lacking.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/plan/waves.hpp"

namespace tessera {
namespace {

Diagnostic does_not_fit(MachineProfile const& machine, std::string const& what, Resources const& r,
                        SourceLine where) {
  return {"E0301",
          Severity::error,
          std::move(where),
          fmt::format("{} does not fit an SM of {}: {} run out", what, machine.name,
                      occupancy_limiter(machine, r)),
          {fmt::format("a block takes {} threads, {} registers each, and {} bytes of shared memory",
                       r.threads, r.registers_per_thread, r.shared_bytes),
           fmt::format("an SM has {} threads, {} registers and {} bytes of shared memory, {} for one block",
                       machine.threads_per_sm, machine.registers_per_sm, machine.shared_bytes_per_sm,
                       machine.shared_bytes_per_block)},
          "choose a smaller tile, or fewer slices in flight"};
}

/// True if the stage waits for something and loads something else that has no producer: what R needs.
bool can_load_before_waiting(Pipeline const& pipeline, int s) {
  auto const& stage = pipeline.stages[static_cast<std::size_t>(s)];
  bool waits = false;
  std::vector<std::string> produced;
  for (auto const& dependence : pipeline.dependences)
    if (dependence.consumer == s) {
      waits = true;
      produced.push_back(dependence.operand);
    }
  return waits && stage.can.load_early &&
         std::any_of(stage.operands.begin(), stage.operands.end(), [&](Operand const& operand) {
           return std::find(produced.begin(), produced.end(), operand.name) == produced.end();
         });
}

/// Kernels that know no order but that of bands, for clusters of which row major is none.
bool takes_bands_only(Stage const& stage) {
  return stage.can.bands && !stage.can.any_order && stage.grid.size() >= 2 &&
         (stage.cluster_rows > 1 || stage.cluster_columns > 1);
}

Diagnostic cannot(Stage const& stage, std::string const& what, std::string way_out) {
  Diagnostic d;
  d.code = "E0303";
  d.where = stage.where;
  d.message = fmt::format("{} cannot {}", stage.kernel.empty() ? stage.name : stage.kernel, what);
  d.suggestion = std::move(way_out);
  return d;
}

/// What the mechanism asks of a stage's kernel that it cannot do (E0303).
std::optional<Diagnostic> lacking_ability(Pipeline const& pipeline, Mechanism mechanism) {
  auto const lacks = [&](std::size_t s, char const* what) {
    return cannot(pipeline.stages[s], fmt::format("{}, as {} has it", what, to_text(mechanism)),
                  "take another mechanism or another kernel");
  };
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const& can = pipeline.stages[s].can;
    bool const early = mechanism == Mechanism::pdl || mechanism == Mechanism::pdl_tiles;
    if (mechanism == Mechanism::fused && !can.fuse) return lacks(s, "be part of a fused launch");
    if (mechanism != Mechanism::fused && !can.run_alone) return lacks(s, "be a launch of its own");
    if (early && s > 0 && !can.start_early) return lacks(s, "start before the kernel before it is complete");
    if (mechanism == Mechanism::wait_kernel && !can.run_beside)
      return lacks(s, "say that its blocks have started");
  }
  if (!uses_semaphores(mechanism)) return std::nullopt;
  for (auto const& dependence : pipeline.dependences) {
    auto const producer = static_cast<std::size_t>(dependence.producer);
    auto const consumer = static_cast<std::size_t>(dependence.consumer);
    if (!pipeline.stages[producer].can.post) return lacks(producer, "post its tiles");
    if (!pipeline.stages[consumer].can.wait) return lacks(consumer, "wait for tiles");
  }
  return std::nullopt;
}

/// What the recipe asks of single stages, and of the first launch, that their kernels cannot do (E0303).
std::optional<Diagnostic> lacking_form(Pipeline const& pipeline, Recipe const& recipe) {
  auto const& stages = pipeline.stages;
  if (recipe.chained && !stages.front().can.start_early)
    return cannot(stages.front(), "start before the kernel before it is complete, as a chained plan has it",
                  "take a plan that is not chained, or another kernel");
  if (recipe.chained && recipe.mechanism == Mechanism::wait_kernel)
    return cannot(stages.front(), "start early while others start beside it",
                  "take a plan that is not chained, or another mechanism");
  for (std::size_t s = 0; s < recipe.stages.size(); ++s) {
    auto const& [band, blocks] = recipe.stages[s];
    bool const in_bands = stages[s].can.bands && stages[s].grid.size() >= 2;
    if (band && in_bands && *band >= 0 && !knows_band(stages[s], *band))
      return cannot(stages[s], fmt::format("take its tiles in bands of {} rows", *band),
                    fmt::format("take bands of {} rows", fmt::join(stages[s].can.heights, " or ")));
    if (band && (!in_bands || *band < 0))
      return cannot(
          stages[s], fmt::format("take its tiles in bands of {} rows", *band),
          in_bands ? "give 1 row or more, or 0 for all" : "leave the band out, or take another kernel");
    if (!blocks || *blocks == 0) continue;
    if (!stages[s].can.persist || *blocks < 0)
      return cannot(stages[s], fmt::format("run as a persistent grid of {} blocks", *blocks),
                    "give one block to each tile, or take another kernel");
    if (recipe.mechanism == Mechanism::fused || recipe.mechanism == Mechanism::wait_kernel)
      return cannot(
          stages[s],
          fmt::format("run as a persistent grid of {} blocks, as {} has it", *blocks,
                      to_text(recipe.mechanism)),
          recipe.mechanism == Mechanism::fused
              ? "leave it out: the workers of a fused launch draw tickets"
              : "give one block to each tile: that others beside it leave room is proved of such only");
  }
  return std::nullopt;
}

/// Index of the set with this producer and map, added if it is new.
int semaphore_set(Plan& plan, int producer, PolicyMap const& map, std::string const& name) {
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i)
    if (plan.semaphores[i].producer == producer && same_map(plan.semaphores[i].map, map))
      return static_cast<int>(i);
  std::int64_t const first =
      plan.semaphores.empty() ? 0 : plan.semaphores.back().first + plan.semaphores.back().count;
  auto const grid = plan.pipeline.stages[static_cast<std::size_t>(producer)].tile_grid();
  plan.semaphores.push_back({producer, map, name, first, map.count(grid)});
  return static_cast<int>(plan.semaphores.size()) - 1;
}

void lay_out_semaphores(Plan& plan, std::vector<Policy> const& policies,
                        std::vector<BufferReuse> const& reuses, Mechanism mechanism) {
  bool const tiles = uses_semaphores(mechanism);
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    PlannedDependence planned{static_cast<int>(d), -1};
    auto const producer = plan.pipeline.dependences[d].producer;
    if (tiles) planned.semaphore_set = semaphore_set(plan, producer, policies[d].map, policies[d].name);
    plan.dependences.push_back(planned);
  }
  if (mechanism == Mechanism::stream_order) return;
  ReuseKeys known;
  for (auto const& reuse : reuses) {
    if (reuse.covered || !known.insert({reuse.writer, reuse.reader, reuse.buffer}).second) continue;
    ReuseEdge edge{reuse.writer, reuse.reader, reuse.buffer, -1};
    auto const grid = plan.pipeline.stages[static_cast<std::size_t>(reuse.reader)].tile_grid();
    if (tiles) edge.semaphore_set = semaphore_set(plan, reuse.reader, whole_grid(grid), "GridSync");
    plan.reuse_edges.push_back(std::move(edge));
  }
}

/// Waves of a stage and its neighbours in the chain, for the paper's rules (IV-C): most over all pairs of a
/// producer and a consumer that the stage is part of.
double waves_with_partners(Plan const& plan, int s) {
  double most = plan.stages[static_cast<std::size_t>(s)].waves;
  for (auto const& dependence : plan.pipeline.dependences)
    if (dependence.consumer == s || dependence.producer == s)
      most = std::max(most, plan.stages[static_cast<std::size_t>(dependence.consumer)].waves +
                                plan.stages[static_cast<std::size_t>(dependence.producer)].waves);
  return most;
}

}  // namespace

bool has_single_posts(Plan const& plan, int s) {
  auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(s)];
  return std::any_of(plan.semaphores.begin(), plan.semaphores.end(), [&](SemaphoreSet const& set) {
    return set.producer == s && set.map.tiles_of(stage.tile_grid(), 0) * stage.splits == 1;
  });
}

namespace {

void set_optimizations(Plan& plan, Recipe const& recipe) {
  bool const tiles = uses_semaphores(recipe.mechanism);
  for (auto& launch : plan.launches)
    launch.wait_kernel = launch.start == LaunchStart::beside &&
                         !(recipe.avoid_wait_kernel && waves_with_partners(plan, launch.first) < 2);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    auto& stage = plan.stages[i];
    int const s = static_cast<int>(i);
    double const partners = waves_with_partners(plan, s);
    bool const starts_early = recipe.mechanism != Mechanism::stream_order;
    stage.reorder_loads = recipe.reorder_loads && starts_early && can_load_before_waiting(plan.pipeline, s);
    stage.custom_order = recipe.mechanism == Mechanism::fused || !stage.order.table.empty() ||
                         (tiles && !(recipe.avoid_custom_order && partners <= 2));
    // A kernel of bands finds its tile from the number of its block.
    if (stage.order.bands && !plan.pipeline.stages[i].can.any_order)
      stage.custom_order = !stage.order.table.empty();
    stage.plain_store = recipe.plain_store && has_single_posts(plan, s);
  }
}

/// Takes back T, then W, until progress can be proved.
Expected<void> prove(Plan& plan, MachineProfile const& machine) {
  auto proof = prove_progress(plan, machine);
  bool const streams = plan.launches.back().start == LaunchStart::beside;
  // Tickets, wait kernels, both.
  for (auto const& [tickets, wait_kernels] : {std::pair{true, false}, {false, true}, {true, true}}) {
    if (proof || !streams) break;
    auto safer = plan;
    if (tickets)
      for (auto& stage : safer.stages) stage.custom_order = true;
    if (wait_kernels)
      for (auto& launch : safer.launches) launch.wait_kernel = launch.start == LaunchStart::beside;
    if (safer.stages == plan.stages && safer.launches == plan.launches) continue;
    if (auto again = prove_progress(safer, machine)) {
      plan = std::move(safer);
      proof = std::move(again);
    }
  }
  if (!proof) return tl::make_unexpected(std::move(proof).error());
  plan.proof = std::move(*proof);
  return {};
}

}  // namespace

std::optional<Diagnostic> cannot_run(Pipeline const& pipeline, MachineProfile const& machine,
                                     Recipe const& recipe) {
  bool const pdl = recipe.mechanism == Mechanism::pdl || recipe.mechanism == Mechanism::pdl_tiles;
  if ((pdl || recipe.chained) && !machine.has_pdl) return no_early_launches(pipeline, machine);
  return lacking_ability(pipeline, recipe.mechanism);
}

Expected<Plan> assemble(Pipeline const& pipeline, std::vector<BufferReuse> const& reuses,
                        MachineProfile const& machine, Recipe const& recipe) {
  Plan plan;
  plan.pipeline = pipeline;
  plan.machine = machine.name;
  plan.machine_values = planning_values(machine, pipeline);
  plan.launches = launches_for(recipe.mechanism, static_cast<int>(pipeline.stages.size()));
  plan.stages.resize(pipeline.stages.size());

  if (recipe.chained) plan.launches.front().start = LaunchStart::early;

  if (auto lacking = cannot_run(pipeline, machine, recipe)) return refuse(std::move(*lacking));
  if (auto lacking = lacking_form(pipeline, recipe)) return refuse(std::move(*lacking));

  std::int64_t blocks = 0;
  Diagnostics misfits;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    plan.stages[s].occupancy = occupancy(machine, stage.resources);
    if (plan.stages[s].occupancy < 1)
      misfits.push_back(
          does_not_fit(machine, fmt::format("a block of {}", stage.name), stage.resources, stage.where));
    blocks += stage.blocks();
  }
  if (!misfits.empty()) return tl::make_unexpected(std::move(misfits));

  if (recipe.mechanism == Mechanism::fused) {
    auto& launch = plan.launches.front();
    auto const resources = worker_resources(pipeline, launch);
    int const resident = occupancy(machine, resources);
    if (resident < 1)
      return refuse(does_not_fit(machine,
                                 "a block of the persistent launch, which holds the most of all stages,",
                                 resources, pipeline.where));
    for (auto& stage : plan.stages) stage.occupancy = resident;
    launch.workers = static_cast<int>(std::min(std::int64_t{resident} * machine.sms, blocks));
  }
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto& planned = plan.stages[s];
    auto const& stage = pipeline.stages[s];
    auto const slots = std::int64_t{planned.occupancy} * machine.sms;
    planned.waves = waves(stage.blocks(), slots);
    if (s < recipe.stages.size() && recipe.stages[s].persistent_blocks) {
      planned.persistent_blocks = *recipe.stages[s].persistent_blocks;
      continue;
    }
    // A measured kernel has a persistent form, which loads the next tile while it stores one. It never waits
    // for a tile in the mechanisms without semaphores, so that nothing changes in the proof.
    bool const ordered = recipe.mechanism == Mechanism::stream_order || recipe.mechanism == Mechanism::pdl;
    if (ordered && stage.can.persist && stage.splits == 1 && stage.blocks() > slots &&
        machine.kernels.count(stage.kernel) != 0)
      planned.persistent_blocks = static_cast<int>(slots);
  }

  bool const tiles = uses_semaphores(recipe.mechanism);
  auto policies = recipe.policies;
  if (tiles && policies.empty())
    for (std::size_t d = 0; d < pipeline.dependences.size(); ++d)
      policies.push_back(generate_policies(pipeline, static_cast<int>(d)).front());
  lay_out_semaphores(plan, policies, reuses, recipe.mechanism);

  if (tiles && recipe.as_needed_order) {
    auto orders = dependence_orders(pipeline);
    for (std::size_t s = 0; s < orders.size(); ++s)
      if (pipeline.stages[s].can.any_order) plan.stages[s].order = std::move(orders[s]);
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    auto band = s < recipe.stages.size() ? recipe.stages[s].band : std::nullopt;
    if (!band && takes_bands_only(stage)) band = 1;
    if (band)
      plan.stages[s].order = make_band_order(stage, {*band, stage.cluster_rows, stage.cluster_columns});
  }
  set_optimizations(plan, recipe);
  if (recipe.mechanism == Mechanism::fused && recipe.merged_tickets) {
    std::vector<TileOrder> orders;
    for (auto const& stage : plan.stages) orders.push_back(stage.order);
    auto& launch = plan.launches.front();
    launch.tickets = merged_tickets(pipeline, orders, plan.reuse_edges, launch.workers);
  }
  if (auto proved = prove(plan, machine); !proved) return tl::make_unexpected(std::move(proved).error());
  return plan;
}

void load_early_where_possible(Plan& plan) {
  for (auto const& launch : plan.launches)
    for (int s = launch.first; s < launch.end() && launch.start == LaunchStart::early; ++s)
      if (can_load_before_waiting(plan.pipeline, s))
        plan.stages[static_cast<std::size_t>(s)].reorder_loads = true;
}

Expected<Plan> build_plan(CheckedPipeline const& checked, MachineProfile const& machine,
                          Recipe const& recipe) {
  return assemble(checked.pipeline(), checked.reuses(), machine, recipe);
}

}  // namespace tessera
