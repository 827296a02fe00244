// SPDX-License-Identifier: Apache-2.0
#include "tessera/timeline.hpp"

#include <fmt/format.h>

#include "plan_value.hpp"
#include "tessera/plan/confirm.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/timeline_json.hpp"
#include "tools/tessera/load.hpp"
#include "tools/tessera/timeline_outputs.hpp"

namespace tessera::python {
namespace {

constexpr double k_ps_per_us = 1e6;

void refuse_long(Timeline const& timeline) {
  value_of(cli::refuse_long_timeline(timeline.pipeline, std::ssize(timeline.tiles), 1));
}

/// On another machine than its own, the plan is proved again.
Timeline simulate_plan(PlanValue const& value, nb::handle other) {
  if (other.is_none()) return simulated(value.plan, value.machine);
  auto const machine = machine_of(other);
  if (machine.name == value.machine.name) warn(other_values(value.plan, machine));
  value_of(confirm(value.plan, machine));
  return simulated(value.plan, machine);
}

}  // namespace

Timeline simulated(Plan const& plan, MachineProfile const& machine) {
  nb::gil_scoped_release const released;
  return value_of(simulate(plan, machine));
}

void bind_timeline(nb::module_& m) {
  nb::class_<StageSpan>(m, "StageSpan", "When a stage ran.")
      .def_ro("name", &StageSpan::name)
      .def_ro("tiles", &StageSpan::tiles)
      .def_prop_ro("first_start_us",
                   [](StageSpan const& self) { return static_cast<double>(self.first_start) / k_ps_per_us; })
      .def_prop_ro("last_end_us",
                   [](StageSpan const& self) { return static_cast<double>(self.last_end) / k_ps_per_us; });
  nb::class_<Timeline> timelines(m, "Timeline",
                                 "What happened when: simulated, or measured. str() is a summary.");
  add_document(timelines, "The document of schema tessera.timeline/1.",
               [](Timeline const& self) { return refuse_long(self), print_timeline(self); });
  add_text(timelines, &summary);
  timelines.def_ro("pipeline", &Timeline::pipeline)
      .def_ro("machine", &Timeline::machine)
      .def_ro("mechanism", &Timeline::mechanism)
      .def_ro("measured", &Timeline::measured, "False: simulated.")
      .def_prop_ro(
          "end_us", [](Timeline const& self) { return static_cast<double>(self.end) / k_ps_per_us; },
          "The whole chain.")
      .def_ro("waves", &Timeline::waves)
      .def_ro("busy", &Timeline::busy, "Share of SM time with at least one block that does not wait.")
      .def_prop_ro("stages", [](Timeline const& self) { return self.stages; })
      .def(
          "draw", [](Timeline const& self, int columns) { return draw(self, columns); },
          nb::arg("columns") = 72, "As text, one row per SM slot.")
      .def(
          "csv", [](Timeline const& self) { return refuse_long(self), timeline_csv(self); },
          "A row per block, times in nanoseconds.")
      .def(
          "trace",
          [](Timeline const& self, PlanValue const* plan) {
            refuse_long(self);
            return perfetto_trace(self, plan ? &plan->plan : nullptr);
          },
          nb::arg("plan").none() = nb::none(),
          "JSON for Perfetto or chrome://tracing; with the plan also arrows from posts to waits.")
      .def("__repr__",
           [](Timeline const& self) {
             return fmt::format("<tessera.Timeline {} on {}: {}, {:.2f} us>", self.pipeline, self.machine,
                                self.mechanism, static_cast<double>(self.end) / k_ps_per_us);
           })
      .def("_repr_html_", [](Timeline const& self) { return html_fragment(self); });
  m.def("simulate", &simulate_plan, nb::arg("plan"), nb::arg("machine").none() = nb::none(),
        nb::sig("def simulate(plan: Plan, machine: str | os.PathLike[str] | dict[str, typing.Any] | "
                "MachineProfile | "
                "None = None) -> Timeline"),
        "The plan on its machine, or on another one, without the machine.");
  m.def("diff", &diff, nb::arg("before"), nb::arg("after"), "What moved between two runs.");
  m.def(
      "report", [](Timeline const& self) { return timeline_html(self); }, nb::arg("timeline"),
      "A page (HTML) of a timeline.");
}

}  // namespace tessera::python
