// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/slab_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tessera/describe/dsl.hpp>
#include <tessera/measure/measured.hpp>
#include <tessera/plan/progress.hpp>
#include <tessera/plan/written_out.hpp>

#include "kernels/lattice_boltzmann/slab_problem.hpp"
#include "kernels/lattice_boltzmann/step_costs.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr int k_tasks = k_slab_threads / 32;  ///< of a block, each of its warps one
constexpr Resources k_resources{k_slab_threads, 64, 0};
constexpr double k_sent = 5 * 4;  ///< bytes of a cell that cross an end

/// The largest slab, as a box of its own.
Problem slab_of(Problem const& problem, int ranks) {
  return {problem.width, problem.height, (problem.depth + ranks - 1) / ranks};
}

/// 0: the probe did not measure it.
double figure_at(MachineProfile const& machine, char const* id, std::map<std::string, double> const& at) {
  auto const* const figure = machine.probe ? find_figure(*machine.probe, id, at) : nullptr;
  return figure != nullptr ? figure->median : 0;
}

Expected<void> check_ranks(Problem const& problem, int ranks) {
  if (auto const fine = check_problem(problem); !fine) return fine;
  if (ranks < 2)
    return refuse(does_not_fit(fmt::format("slabs of {} GPU{}", ranks, ranks == 1 ? "" : "s"),
                               "share a box among two GPUs or more"));
  return check_shared(problem, ranks);
}

/// Ends and inside of a step are one launch, whose blocks come in this order. All of it comes behind the
/// launch before, and the ends behind the neighbours' word as well.
void share_launches(Plan& plan, MachineProfile const& machine) {
  auto const& pipeline = plan.pipeline;
  std::vector<SemaphoreSet> words;
  for (auto& planned : plan.dependences) {
    bool const told = pipeline.dependences[static_cast<std::size_t>(planned.dependence)].operand == "told";
    if (!told) {
      planned.semaphore_set = -1;
      continue;
    }
    words.push_back(plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)]);
    planned.semaphore_set = static_cast<int>(words.size()) - 1;
  }
  plan.semaphores = std::move(words);
  for (auto& stage : plan.stages) stage.reorder_loads = false;
  int const each = pipeline.stages.back().name.starts_with("inside") ? 2 : 1;
  plan.launches.clear();
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); s += each) {
    Launch launch;
    launch.first = s, launch.stages = each;
    launch.start = machine.has_pdl && s > 0 ? LaunchStart::early : LaunchStart::in_order;
    std::int64_t tiles = 0;
    for (int i = s; i < s + each; ++i) tiles += pipeline.stages[static_cast<std::size_t>(i)].tiles();
    launch.workers =
        static_cast<int>(std::min(tiles, std::int64_t{occupancy(machine, k_resources)} * machine.sms));
    plan.launches.push_back(launch);
  }
}

}  // namespace

Expected<SlabLink> link_of_slabs(Problem const& problem, MachineProfile const& machine) {
  double const post = figure_at(machine, "peer.post", {{"bytes", 4096}}),
               hop = figure_at(machine, "peer.hop.store", {{"bytes", 0}}),
               rate = figure_at(machine, "peer.bandwidth.store", {{"directions", 2}});
  if (post <= 0 || hop <= 0 || rate <= 0) {
    Diagnostic one;
    one.code = "E0303";
    one.message = fmt::format(
        "the profile {} says nothing of a second GPU: it has no peer.post, "
        "peer.hop.store or peer.bandwidth.store",
        machine.name);
    one.suggestion = "take --machine h200, or a profile of `tessera probe` on two GPUs";
    return refuse(std::move(one));
  }
  // The last block releases twice: what all of its end stored, by its arrival, and the word. The hop is until
  // the neighbour has seen it; his look is in the machine's wait.
  double const arrival = measured(machine, "memory.l2.atomic", "", 0, 200);
  double const sent = k_ends * k_sent * problem.width * problem.height;
  return SlabLink{post + arrival, std::max(0.0, hop - machine.wait_ns) + sent / rate};
}

MachineProfile machine_of_slabs(Problem const& problem, int ranks, MachineProfile const& machine,
                                SlabLink const& link, StepFit const& fit) {
  auto m = machine_of(slab_of(problem, ranks), Variant::two_lattices, machine, fit);
  // What a block of a launch has in front of it, each tile of a worker has.
  m.ticket_ns = m.block_start_ns;
  m.block_start_ns = 0;
  m.post_ns = m.store_post_ns = link.post_ns;
  return m;
}

Expected<Loop> describe_slabs(Problem const& problem, int ranks) {
  if (auto const fine = check_ranks(problem, ranks); !fine) return tl::make_unexpected(fine.error());
  auto const box = slab_box(problem.width, problem.height, slab_of(problem, ranks).depth);
  int const share = static_cast<int>(blocks_of_end(box, k_slab_threads));
  int const ends_of_slab = box.depth == 3 ? 1 : k_ends;
  int const inside_blocks = static_cast<int>(blocks_of_slab(box, k_slab_threads)) - ends_of_slab * share;
  double const cells = static_cast<double>(slab_of(problem, ranks).size());
  double const all_bytes = k_bytes_per_cell * cells,
               bytes = all_bytes / (ends_of_slab * share + inside_blocks);
  StageCost const cost{0, 0, k_tasks, k_tasks};

  PipelineBuilder pipeline("lattice_boltzmann_slabs");
  auto [x, y] = pipeline.dims("x", "y");
  auto ends = pipeline.stage("ends", {x = share, y = ends_of_slab});
  ends.resources(k_resources).kernel(k_step_kernel).cost(cost);
  ends.reads("before", "ends", bytes, all_bytes);
  pipeline.each_iteration("ends");
  pipeline.depends(ends(x, y), earlier(ends(all(x), all(y)))).through("before").policy(whole_grid());
  // The neighbours' other ends.
  Dim const other = ends_of_slab == 1 ? Dim(0) : 1 - y;
  pipeline.depends(ends(x, y), earlier(ends(all(x), other))).through("told").policy(rows());
  if (inside_blocks > 0) {
    auto inside = pipeline.stage("inside", {x = inside_blocks});
    inside.resources(k_resources).kernel(k_step_kernel).cost(cost);
    inside.reads("before", "inside", bytes, all_bytes);
    pipeline.each_iteration("inside");
    pipeline.depends(ends(x, y), earlier(inside(all(x)))).through("of_inside").policy(whole_grid());
    pipeline.depends(inside(x), earlier(inside(all(x)))).through("before").policy(whole_grid());
    pipeline.depends(inside(x), earlier(ends(all(x), all(y)))).through("of_ends").policy(whole_grid());
  }
  return pipeline.build_loop();
}

Expected<Plan> plan_slabs(Problem const& problem, int ranks, MachineProfile const& machine, int iterations,
                          StepFit const& fit) {
  auto const loop = describe_slabs(problem, ranks);
  if (!loop) return tl::make_unexpected(loop.error());
  auto const link = link_of_slabs(problem, machine);
  if (!link) return tl::make_unexpected(link.error());
  auto const of = machine_of_slabs(problem, ranks, machine, *link, fit);
  auto plan = plan_persistent_written_out(*loop, of, iterations);
  if (!plan) return plan;
  share_launches(*plan, of);
  auto proof = prove_progress(*plan, of);
  if (!proof) return tl::make_unexpected(proof.error());
  plan->proof = std::move(*proof);
  return plan;
}

}  // namespace tessera::lattice_boltzmann
