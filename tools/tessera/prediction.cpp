// SPDX-License-Identifier: Apache-2.0
#include "prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

constexpr double k_rounding = 1e-6;  ///< of a number in a text

/// What a plan may be predicted to take, in us. On a machine with a power limit the planner prices at the
/// clock that the best candidates share in turns, not at the plan's own.
struct Range {
  double least = 0, alone = 0, most = 0;
};

std::optional<double> simulated_us(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine, {false});
  if (!timeline) return std::nullopt;
  return static_cast<double>(timeline->end) * 1e-6;
}

std::optional<Range> range_of(Plan const& plan, MachineProfile const& machine) {
  auto unlimited = machine;
  unlimited.power_limit_w = 0;
  bool const is_limited = machine.power_limit_w > 0;
  auto const alone = simulated_us(plan, machine);
  auto const least = is_limited ? simulated_us(plan, unlimited) : alone;
  if (!alone || !least) return std::nullopt;
  // What draws more power than this plan can slow it down by.
  double const slower = is_limited ? 0.1 : k_rounding;
  return Range{(1 - k_rounding) * *least, *alone, (1 + slower) * *alone};
}

std::optional<Range> own_stream_order(Plan const& plan, MachineProfile const& machine) {
  auto const checked = check(plan.pipeline);
  if (!checked) return std::nullopt;
  auto const in_order = build_plan(*checked, machine, {});
  return in_order ? range_of(*in_order, machine) : std::nullopt;
}

/// Stages without a kernel have the same tiles in every plan; candidates differ in the order of them.
bool tiles_are_given(Plan const& plan) {
  return std::all_of(plan.pipeline.stages.begin(), plan.pipeline.stages.end(),
                     [](Stage const& stage) { return stage.kernel.empty(); });
}

Diagnostic not_so(std::string message, std::string hint) {
  return {"E0267", Severity::warning, {}, std::move(message), {}, std::move(hint)};
}

/// Of what a file says, which may be any number.
std::string quoted_us(double us) {
  constexpr double k_most = 1e9;
  return us < k_most ? fmt::format("{:.2f}", us) : fmt::format("{:.3g}", us);
}

}  // namespace

Diagnostics check_prediction(Plan& plan, MachineProfile const& machine) {
  Diagnostics found;
  if (plan.predicted_us > 0)
    if (auto const us = range_of(plan, machine);
        us && (plan.predicted_us < us->least || plan.predicted_us > us->most)) {
      found.push_back(not_so(
          fmt::format("this plan quotes {} us, and its simulation on {} takes {:.2f} us",
                      quoted_us(plan.predicted_us), plan.machine, us->alone),
          "the simulated time is taken, and the alternatives' times are left out; make the plan again: "
          "tessera plan ... -o plan.json"));
      plan.predicted_us = us->alone;
      plan.why.clear();
      for (auto& other : plan.alternatives) other.predicted_us = 0;
    }
  if (plan.stream_order_us > 0)
    if (auto const us = own_stream_order(plan, machine);
        us && (plan.stream_order_us > us->most ||
               (tiles_are_given(plan) && plan.stream_order_us < us->least / 2))) {
      found.push_back(
          not_so(fmt::format("this plan quotes {} us for the best stream order, and its own stages take "
                             "{:.2f} us in stream order on {}",
                             quoted_us(plan.stream_order_us), us->alone, plan.machine),
                 "no gain is shown; make the plan again: tessera plan ... -o plan.json"));
      plan.stream_order_us = 0;
      plan.why.clear();
    }
  return found;
}

}  // namespace tessera::cli
