// SPDX-License-Identifier: Apache-2.0
#include "load_plan.hpp"

#include <fmt/format.h>

#include "files.hpp"
#include "load.hpp"
#include "prediction.hpp"
#include "tessera/document.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/confirm.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/shipped.hpp"
#include "tessera/timeline_json.hpp"

namespace tessera::cli {
namespace {

/// What is found out about a plan of a file has that file's place, unless it has one of its own there.
Diagnostics placed(Diagnostics found, std::string const& path) {
  for (auto& one : found) {
    if (one.where.file == path) continue;
    if (!one.where.file.empty())
      one.notes.push_back(fmt::format("described at {}:{}", one.where.file, one.where.line));
    one.where = {path, 0};
  }
  return found;
}

/// Only shipped ones: a plan's text must not choose which file is opened.
bool is_shipped(std::string const& name) {
  for (auto const& file : shipped_machines())
    if (file.name == name) return true;
  return false;
}

/// The machine that the plan says it was made for.
Expected<MachineProfile> own_machine(Plan const& plan) {
  if (plan.machine_values &&
      (!is_shipped(plan.machine) || !other_values(plan, *machine(plan.machine)).empty()))
    return *plan.machine_values;
  return machine(plan.machine);
}

Diagnostics warnings_of_values(std::string const& path, Plan const& plan, MachineProfile const& profile,
                               std::string const& given, char const* taken) {
  auto warnings = other_values(plan, profile);
  for (auto& warning : warnings) {
    if (!given.empty() && given != profile.name)
      warning.notes.insert(warning.notes.begin(), fmt::format("the profile is the one of {}", given));
    warning.where = {path, 0};
    warning.suggestion = taken;
  }
  return warnings;
}

Diagnostic no_values(std::string const& path, Plan const& plan) {
  Diagnostic d;
  d.code = "E0266";
  d.severity = Severity::warning;
  d.where = {path, 0};
  d.message = fmt::format("this plan does not say the values of the {} that it was made for", plan.machine);
  d.suggestion = "the profile's values are taken, which may be others; make the plan again";
  return d;
}

/// A plan that may get stuck is still refused for anything else.
bool only_stuck(Diagnostics const& found) {
  for (auto const& one : found)
    if (one.code != "E0302") return false;
  return true;
}

Expected<void> confirm_for(Plan& plan, std::string const& path, MachineProfile const& machine, bool own,
                           PlanUse const& use) {
  auto const answer = own ? confirm_own(plan, machine)
                          : confirm(plan, machine).map([&](std::string const& proof) { plan.proof = proof; });
  if (answer || (use.is_explored && only_stuck(answer.error()))) return {};
  return tl::make_unexpected(placed(answer.error(), path));
}

}  // namespace

Expected<LoadedPlan> confirm_plan(Plan plan, std::string const& path, PlanUse const& use) {
  Diagnostics warnings;
  auto own = own_machine(plan);
  if (own) {
    if (auto const fine = confirm_for(plan, path, *own, true, use); !fine)
      return tl::make_unexpected(fine.error());
  } else if (use.machine.empty()) {
    return tl::make_unexpected(placed(own.error(), path));
  }
  if (!use.machine.empty()) {
    auto other = load_machine(use.machine);
    if (!other) return tl::make_unexpected(other.error());
    if (other->name == plan.machine)
      warnings = warnings_of_values(path, plan, *other, use.machine, "the profile's values are taken");
    if (auto const fine = confirm_for(plan, path, *other, false, use); !fine)
      return tl::make_unexpected(fine.error());
    return LoadedPlan{std::move(plan), std::move(*other), std::move(warnings)};
  }
  if (is_shipped(plan.machine)) {
    auto const profile = machine(plan.machine);
    warnings = warnings_of_values(path, plan, *profile, "",
                                  "the plan's values are taken; make the plan again for the profile's");
    if (!plan.machine_values) warnings.push_back(no_values(path, plan));
    auto there = plan;  // what is proved there is not what the header quotes
    if (use.becomes_a_header)
      if (auto const fine = confirm_for(there, path, *profile, false, use); !fine)
        return tl::make_unexpected(fine.error());
  }
  if (use.quotes_times)
    for (auto& one : placed(check_prediction(plan, *own), path)) warnings.push_back(std::move(one));
  return LoadedPlan{std::move(plan), std::move(*own), std::move(warnings)};
}

Expected<PlanOrTimeline> read_plan_or_timeline(std::string_view text, std::string const& path,
                                               PlanUse const& use) {
  auto const summary = summarize_document(text, path);
  if (!summary) return tl::make_unexpected(summary.error());
  PlanOrTimeline out;
  if (summary->kind == DocumentKind::timeline) {
    auto timeline = parse_timeline(text, path);
    if (!timeline) return tl::make_unexpected(timeline.error());
    out.timeline = std::move(*timeline);
    return out;
  }
  if (summary->kind != DocumentKind::plan)
    return wrong_kind(path, *summary,
                      summary->kind == DocumentKind::study ? "a plan or a timeline" : "a plan");
  auto plan = parse_plan(text, path);
  if (!plan) return tl::make_unexpected(plan.error());
  auto loaded = confirm_plan(std::move(*plan), path, use);
  if (!loaded) return tl::make_unexpected(loaded.error());
  out.plan = std::move(*loaded);
  return out;
}

Expected<PlanOrTimeline> load_plan_or_timeline(Session const& session, std::string const& path,
                                               PlanUse const& use) {
  auto const text = read_file(path);
  if (!text) return tl::make_unexpected(text.error());
  auto out = read_plan_or_timeline(*text, path == "-" ? "standard input" : path, use);
  if (out && out->plan) session.warn(out->plan->warnings);
  return out;
}

Expected<LoadedPlan> load_plan(Session const& session, std::string const& path, PlanUse const& use) {
  auto loaded = load_plan_or_timeline(session, path, use);
  if (!loaded) return tl::make_unexpected(loaded.error());
  if (!loaded->plan) return wrong_kind(path, {DocumentKind::timeline, "", {}, {}}, "a plan");
  return std::move(*loaded->plan);
}

}  // namespace tessera::cli
