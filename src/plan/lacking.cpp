// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/lacking.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Diagnostic cannot(Stage const& stage, std::string const& what) {
  return {"E0303",     Severity::error,
          stage.where, fmt::format("{} cannot {}", stage.kernel.empty() ? stage.name : stage.kernel, what),
          {},          "take another mechanism or another kernel"};
}

/// What the stage cannot do of what its launch and its own switches say.
std::optional<std::string> too_much_for(Plan const& plan, int s) {
  auto const& can = plan.pipeline.stages[at(s)].can;
  auto const& planned = plan.stages[at(s)];
  int const index = launch_of(plan, s);
  auto const& launch = plan.launches[at(index)];
  auto const group = group_of(plan, index);
  bool const beside = std::any_of(plan.launches.begin() + group.first, plan.launches.begin() + group.end,
                                  [](Launch const& one) { return one.start == LaunchStart::beside; });
  if (launch.workers > 0 && !can.fuse) return "be part of a fused launch";
  if (launch.workers == 0 && !can.run_alone) return "be a launch of its own";
  if (launch.start == LaunchStart::early && s == launch.first && !can.start_early)
    return "start before the kernel before it is complete";
  if (beside && !can.run_beside) return "say that its blocks have started";
  if (planned.persistent_blocks > 0 && !can.persist)
    return fmt::format("run as a persistent grid of {} blocks", planned.persistent_blocks);
  if (planned.persistent_blocks > 0 && beside)
    return fmt::format("run as a persistent grid of {} blocks beside others", planned.persistent_blocks);
  if (planned.order.bands && !can.bands) return "take its tiles in bands";
  if (!planned.order.bands && !planned.order.table.empty() && !can.any_order)
    return "take its tiles in the order of a table";
  if (planned.reorder_loads && !can.load_early) return "load before it waits";
  return std::nullopt;
}

/// Ways to overlap without early launches that all of the kernels have.
std::string without_early_launches(Pipeline const& pipeline) {
  auto const all = [&](bool Abilities::*ability) {
    return std::all_of(pipeline.stages.begin(), pipeline.stages.end(),
                       [&](Stage const& stage) { return stage.can.*ability; });
  };
  bool const beside = all(&Abilities::run_beside), fuse = all(&Abilities::fuse);
  if (!beside && !fuse) return "plan it for that machine, or in stream order: its kernels have no other way";
  return fmt::format("use {}{}{} there", beside ? "the wait kernel" : "", beside && fuse ? " or " : "",
                     fuse ? "a fused launch" : "");
}

}  // namespace

Diagnostic no_early_launches(Pipeline const& pipeline, MachineProfile const& machine) {
  return {"E0303",
          Severity::error,
          pipeline.where,
          fmt::format("{} has no programmatic dependent launch", machine.name),
          {},
          without_early_launches(pipeline)};
}

std::optional<Diagnostic> lacking_launch(Plan const& plan, MachineProfile const& machine) {
  bool const early = std::any_of(plan.launches.begin(), plan.launches.end(),
                                 [](Launch const& launch) { return launch.start == LaunchStart::early; });
  if (!early || machine.has_pdl) return std::nullopt;
  return no_early_launches(plan.pipeline, machine);
}

std::optional<Diagnostic> lacking_ability(Plan const& plan) {
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
    if (auto const what = too_much_for(plan, s)) return cannot(plan.pipeline.stages[at(s)], *what);
  for (auto const& planned : plan.dependences) {
    if (kept_by(plan, planned) != KeptBy::semaphores) continue;
    auto const& dependence = plan.pipeline.dependences[at(planned.dependence)];
    auto const& producer = plan.pipeline.stages[at(dependence.producer)];
    auto const& consumer = plan.pipeline.stages[at(dependence.consumer)];
    if (!producer.can.post) return cannot(producer, "post its tiles");
    if (!consumer.can.wait) return cannot(consumer, "wait for tiles");
  }
  return std::nullopt;
}

}  // namespace tessera
