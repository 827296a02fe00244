// SPDX-License-Identifier: Apache-2.0
#include "tune/plan_name.hpp"

#include <fmt/format.h>

#include "tessera/tune/plans.hpp"

namespace tessera {
namespace {

std::string stage_text(Plan const& plan, int index) {
  auto const s = static_cast<std::size_t>(index);
  auto const& stage = plan.pipeline.stages[s];
  auto const& planned = plan.stages[s];
  auto text = stage.kernel.empty() ? stage.name : stage.kernel;
  if (!planned.variant.empty())
    return planned.variant.rfind(text, 0) == 0 ? planned.variant : text + " " + planned.variant;
  if (stage.splits > 1) text += fmt::format(" / {}", stage.splits);
  if (!planned.order.table.empty() || planned.order.bands) text += ", " + planned.order.name;
  if (planned.persistent_blocks > 0) text += fmt::format(", {} blocks", planned.persistent_blocks);
  return text;
}

/// Of each dependence that semaphores keep.
std::string policies_text(Plan const& plan) {
  std::string text;
  for (auto const& planned : plan.dependences)
    if (planned.semaphore_set >= 0)
      text += (text.empty() ? "" : " + ") +
              plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)].policy;
  return text;
}

}  // namespace

std::string plan_name(Plan const& plan) {
  std::string text;
  std::string early_loads, tickets;
  for (auto const& launch : plan.launches) {
    if (launch.first > 0)
      text += launch.start == LaunchStart::in_order ? " | "
              : launch.start == LaunchStart::early  ? " > "
                                                    : " & ";
    if (launch.workers > 0) text += "[";
    for (int s = launch.first; s < launch.end(); ++s) {
      // A variant of several stages stands with the first of them.
      if (s > launch.first && !plan.stages[static_cast<std::size_t>(launch.first)].variant.empty()) continue;
      text += (s == launch.first ? "" : " + ") + stage_text(plan, s);
    }
    if (launch.workers > 0) text += fmt::format("] by {} workers", launch.workers);
    if (!launch.tickets.empty()) text += ", merged tickets";
    if (launch.wait_kernel) text += ", wait kernel";
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = plan.stages[s];
    if (stage.reorder_loads) early_loads += " " + plan.pipeline.stages[s].name;
    if (stage.custom_order && !stage.order.bands) tickets += " " + plan.pipeline.stages[s].name;
  }
  // Of a pair there is no question whose.
  auto const whose = [&](std::string const& names) {
    return plan.stages.size() > 2 ? " of" + names : std::string();
  };
  text += fmt::format("; {}", mechanism_text(plan));
  if (auto const policies = policies_text(plan); !policies.empty()) text += ", " + policies;
  if (!early_loads.empty()) text += ", early loads" + whose(early_loads);
  if (!tickets.empty()) text += ", tickets" + whose(tickets);
  if (plan.launches.front().start == LaunchStart::early) text += ", chained";
  return text;
}

std::string kernels_of(Plan const& plan) {
  std::string text = mechanism_text(plan) + policies_text(plan);
  for (auto const& stage : plan.pipeline.stages)
    text += " " + (stage.kernel.empty() ? stage.name : stage.kernel) +
            (stage.splits > 1 ? std::to_string(stage.splits) : "");
  for (auto const& stage : plan.stages) text += stage.variant;
  return text;
}

}  // namespace tessera
