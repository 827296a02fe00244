// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/confirm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/plan/lacking.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/plan/waves.hpp"

namespace tessera {
namespace {

constexpr char const* k_way_out = "make the plan again: tessera plan ... -o plan.json";

/// The first place in which two texts differ, moved back to the start of its word, so that numbers are whole.
std::size_t first_difference(std::string const& a, std::string const& b) {
  auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (at > 0 && a[at - 1] != ' ') --at;
  return at;
}

/// As much of a text as tells what stands there.
std::string from(std::string const& text, std::size_t at) {
  constexpr std::size_t k_most = 120;
  auto const rest = at < text.size() ? text.substr(at) : std::string();
  if (rest.empty()) return "nothing more";
  return '"' + (rest.size() > k_most ? rest.substr(0, k_most) + "..." : rest) + '"';
}

/// What the plan says of room on an SM and of waves, for reports, and is not so.
std::optional<std::string> wrong_room(Plan const& plan, MachineProfile const& machine) {
  for (auto const& launch : plan.launches)
    for (int s = launch.first; s < launch.end(); ++s) {
      auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(s)];
      auto const said = plan.stages[static_cast<std::size_t>(s)].occupancy;
      int const room =
          occupancy(machine, launch.workers > 0 ? worker_resources(plan.pipeline, launch) : stage.resources);
      if (said != room)
        return fmt::format("{} blocks of {} are said to fit an SM of {}, and {} do", said, stage.name,
                           machine.name, room);
      // A loop's launch may have fewer workers than fit.
      auto const slots = std::int64_t{said} * machine.sms;
      auto const quoted = plan.stages[static_cast<std::size_t>(s)].waves;
      auto const is = [&](double rounds) { return std::abs(quoted - rounds) <= 1e-6 * rounds; };
      bool const fine = (slots > 0 && is(waves(stage.blocks(), slots))) ||
                        (launch.workers > 0 && is(waves(stage.blocks(), launch.workers)));
      if (slots > 0 && !fine)
        return fmt::format("{} is said to take {:.4g} waves on {}, and takes {:.4g}", stage.name, quoted,
                           machine.name, waves(stage.blocks(), slots));
    }
  return std::nullopt;
}

}  // namespace

Expected<std::string> confirm(Plan const& plan, MachineProfile const& machine) {
  if (auto lacking = lacking_launch(plan, machine)) return refuse(std::move(*lacking));
  if (auto lacking = lacking_ability(plan)) return refuse(std::move(*lacking));
  return prove_progress(plan, machine);
}

Expected<void> confirm_own(Plan& plan, MachineProfile const& machine) {
  auto proof = confirm(plan, machine);
  if (!proof) return tl::make_unexpected(std::move(proof).error());
  if (!plan.proof.empty() && plan.proof != *proof) {
    auto const at = first_difference(plan.proof, *proof);
    return refuse({"E0264",
                   Severity::error,
                   plan.pipeline.where,
                   fmt::format("the proof in this plan is not the one of its launches on {}", machine.name),
                   {"the file says " + from(plan.proof, at), "proved is " + from(*proof, at)},
                   k_way_out});
  }
  if (auto wrong = wrong_room(plan, machine))
    return refuse({"E0264", Severity::error, plan.pipeline.where, std::move(*wrong), {}, k_way_out});
  plan.proof = std::move(*proof);
  return {};
}

Diagnostics other_values(Plan const& plan, MachineProfile const& machine) {
  if (!plan.machine_values) return {};
  auto const differences = value_differences(*plan.machine_values, planning_values(machine, plan.pipeline));
  if (differences.empty()) return {};
  Diagnostic d;
  d.code = "E0266";
  d.severity = Severity::warning;
  d.where = plan.pipeline.where;
  d.message = fmt::format("this plan was made for a {} of other values than the profile {} has", plan.machine,
                          machine.name);
  auto const is_named = [&](std::string const& value) {
    auto const& stages = plan.pipeline.stages;
    return std::any_of(stages.begin(), stages.end(), [&](Stage const& stage) {
      return !stage.kernel.empty() && value.starts_with("kernels." + stage.kernel + ".");
    });
  };
  for (auto const& [name, before, after] : differences)
    // Only what the stages name was looked up.
    if (name.starts_with("kernels.") && !is_named(name))
      d.notes.push_back(
          fmt::format("{} is {} in the plan, whose stages do not name that kernel", name, before));
    else
      d.notes.push_back(fmt::format("{} is {} in the plan, {} in the profile", name, before, after));
  d.suggestion = "make the plan again for the profile";
  return {std::move(d)};
}

}  // namespace tessera
