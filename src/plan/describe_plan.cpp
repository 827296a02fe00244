// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plan/assemble.hpp"

namespace tessera {

std::string optimization_text(Plan const& plan) {
  auto const any = [&](auto&& test) { return std::any_of(plan.stages.begin(), plan.stages.end(), test); };
  std::string text;
  auto const launch = [&](auto&& test) {
    return std::any_of(plan.launches.begin(), plan.launches.end(), test);
  };
  if (launch([](Launch const& l) { return l.start == LaunchStart::beside; }) &&
      !launch([](Launch const& l) { return l.wait_kernel; }))
    text += 'W';
  if (any([](StagePlan const& s) { return s.reorder_loads; })) text += 'R';
  if (!plan.semaphores.empty() && any([](StagePlan const& s) { return !s.custom_order; })) text += 'T';
  if (any([](StagePlan const& s) { return s.plain_store; })) text += 'S';
  return text.empty() ? text : "+" + text;
}

std::string policy_text(Plan const& plan) {
  std::vector<std::string> names;
  for (auto const& dependence : plan.dependences) {
    if (dependence.semaphore_set < 0) continue;
    auto const& name = plan.semaphores[static_cast<std::size_t>(dependence.semaphore_set)].policy;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : " + ") + name;
  return text;
}

std::string kernel_text(Pipeline const& pipeline) {
  std::string text;
  bool named = false;
  for (auto const& stage : pipeline.stages) {
    named = named || !stage.kernel.empty();
    // "gemm_128x256x64_4": the stage's name says what it is, so that the shape is enough.
    std::size_t from = 0;
    for (std::size_t i = 1; i < stage.kernel.size() && from == 0; ++i)
      if (stage.kernel[i - 1] == '_' && stage.kernel[i] >= '0' && stage.kernel[i] <= '9') from = i;
    auto shape = stage.kernel.substr(from);
    if (stage.splits > 1) shape += "/" + std::to_string(stage.splits);
    text += (text.empty() ? "" : " -> ") + shape;
  }
  return named ? text : "";
}

std::string form_text(Plan const& plan) {
  std::vector<std::string> forms;
  for (auto const& stage : plan.stages) {
    std::string form;
    // Clusters have no plainer order than bands of one row.
    if (stage.order.bands && stage.order.bands->rows != 1) form = stage.order.name;
    if (stage.persistent_blocks > 0) form += form.empty() ? "persistent" : " persistent";
    forms.push_back(std::move(form));
  }
  auto const same = [&](std::string const& form) { return form == forms.front(); };
  if (std::all_of(forms.begin(), forms.end(), same)) return forms.empty() ? "" : forms.front();
  std::string text;
  for (auto const& form : forms) text += (text.empty() ? "" : " -> ") + (form.empty() ? "rows" : form);
  return text;
}

std::string describe(Plan const& plan) {
  std::string text = mechanism_text(plan);
  for (auto const& part : {policy_text(plan), kernel_text(plan.pipeline), form_text(plan)})
    if (!part.empty()) text += ", " + part;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    if (!plan.stages[s].variant.empty())
      text += ", " + plan.pipeline.stages[s].name + " by " + plan.stages[s].variant;
  if (std::any_of(plan.stages.begin(), plan.stages.end(),
                  [](StagePlan const& s) { return !s.order.table.empty() && !s.order.bands; }))
    text += ", tiles as needed";
  if (std::any_of(plan.launches.begin(), plan.launches.end(),
                  [](Launch const& launch) { return !launch.tickets.empty(); }))
    text += ", merged tickets";
  if (plan.launches.front().start == LaunchStart::early) text += ", chained";
  if (auto const optimizations = optimization_text(plan); !optimizations.empty())
    text += ", " + optimizations;
  return text;
}

}  // namespace tessera
