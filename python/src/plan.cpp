// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan_value.hpp"
#include "tessera/check/check.hpp"
#include "tessera/generate/generate.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped.hpp"
#include "tools/tessera/load.hpp"
#include "tools/tessera/load_plan.hpp"
#include "tools/tessera/plan_workload.hpp"

namespace tessera::python {
namespace {

/// Lets Ctrl-C end a long search: Python only notes the signal, until it is asked.
PriceObserver interruptible() {
  return [count = 0](double) mutable {
    constexpr int k_candidates = 16;
    if (++count % k_candidates != 0) return;
    nb::gil_scoped_acquire const held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
}

PlanValue plan_any(nb::handle given, nb::handle machine, std::vector<std::string> const& mechanisms,
                   std::vector<std::string> policies, bool vanilla, bool chained,
                   std::optional<int> iterations) {
  PlanOptions options;
  options.mechanisms = value_of(cli::mechanisms_of(mechanisms));
  options.policies = std::move(policies);
  options.all_optimizations = !vanilla;
  options.chained = chained;
  auto const workload = flat_workload_of(given, iterations);
  PlanValue value{{}, machine_of(machine)};
  Diagnostics warnings;
  {
    nb::gil_scoped_release const released;
    if (auto const* pipeline = std::get_if<Pipeline>(&workload))
      if (auto const checked = check(*pipeline)) warnings = checked->warnings();
    value.plan = value_of(cli::plan_workload(workload, value.machine, options, interruptible()));
  }
  warn(warnings);
  return value;
}

std::string header_of(PlanValue const& value) {
  nb::gil_scoped_release const released;
  auto const loaded = value_of(cli::confirm_plan(value.plan, "", {.becomes_a_header = true}));
  return value_of(generate_header(loaded.plan));
}

std::string page_of(std::string const& code) {
  for (auto const& page : shipped_diagnostics())
    if (page.name == code) return std::string(page.text);
  throw Refused{cli::complaint("E0907", fmt::format("there is no diagnostic {}", code))};
}

std::string report_of(std::vector<PlanValue const*> const& plans, std::string title,
                      std::vector<PlanValue const*> const& stream_order) {
  if (!stream_order.empty() && stream_order.size() != plans.size())
    throw nb::value_error("stream_order is a plan for each of the plans");
  if (plans.empty()) throw nb::value_error("a report needs a plan");
  nb::gil_scoped_release const released;
  std::vector<ReportEntry> entries;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    ReportEntry entry{plans[p]->plan, value_of(simulate(plans[p]->plan, plans[p]->machine)), {}};
    if (!stream_order.empty())
      entry.stream_order = value_of(simulate(stream_order[p]->plan, stream_order[p]->machine));
    entries.push_back(std::move(entry));
  }
  if (title.empty()) title = plans.front()->plan.pipeline.name;
  return html_report(title, entries, cli::assumptions(plans.front()->machine));
}

std::string fragment_of(PlanValue const& value) {
  nb::gil_scoped_release const released;
  return html_fragment({value.plan, value_of(simulate(value.plan, value.machine)), {}},
                       cli::assumptions(value.machine));
}

void bind_plan_value(nb::module_& m) {
  nb::class_<Alternative>(m, "Alternative", "A candidate that was priced or ruled out, and why.")
      .def_ro("description", &Alternative::description)
      .def_ro("predicted_us", &Alternative::predicted_us, "0: not priced.")
      .def_ro("reason", &Alternative::reason);
  nb::class_<PlanValue> plans(m, "Plan",
                              "How a workload's kernels are synchronized, and why. str() explains it.");
  add_document(plans, "The document of schema tessera.plan/2.",
               [](PlanValue const& self) { return print_plan(self.plan); });
  add_text(plans, [](PlanValue const& self) {
    return explain(self.plan) + cli::clock_line(self.plan, self.machine);
  });
  plans.def_prop_ro("name", [](PlanValue const& self) { return self.plan.pipeline.name; })
      .def_prop_ro("machine", [](PlanValue const& self) { return self.machine; })
      .def_prop_ro(
          "mechanism", [](PlanValue const& self) { return mechanism_text(self.plan); },
          "\"stream order\", \"PDL + tiles\", ...")
      .def_prop_ro("predicted_us", [](PlanValue const& self) { return self.plan.predicted_us; })
      .def_prop_ro(
          "stream_order_us", [](PlanValue const& self) { return self.plan.stream_order_us; },
          "The best plan in stream order, on the same machine.")
      .def_prop_ro("bound_by", [](PlanValue const& self) { return self.plan.bound_by; })
      .def_prop_ro("why", [](PlanValue const& self) { return self.plan.why; })
      .def_prop_ro(
          "proof", [](PlanValue const& self) { return self.plan.proof; }, "Why it cannot hang.")
      .def_prop_ro("alternatives", [](PlanValue const& self) { return self.plan.alternatives; })
      .def(
          "dot", [](PlanValue const& self) { return dot(self.plan); }, "Graphviz: stages and dependences.")
      .def("__repr__",
           [](PlanValue const& self) {
             return fmt::format("<tessera.Plan {} on {}: {}, {:.2f} us>", self.plan.pipeline.name,
                                self.plan.machine, mechanism_text(self.plan), self.plan.predicted_us);
           })
      .def("_repr_html_", &fragment_of);
}

}  // namespace

nb::object plan_or_timeline_of(std::string const& text, std::string const& file) {
  auto found = value_of(cli::read_plan_or_timeline(text, file));
  if (found.timeline) return nb::cast(std::move(*found.timeline));
  warn(found.plan->warnings);
  return nb::cast(PlanValue{std::move(found.plan->plan), std::move(found.plan->machine)});
}

void bind_plan(nb::module_& m) {
  bind_plan_value(m);
  m.def(
      "plan", &plan_any, nb::arg("workload"), nb::arg("machine") = "h200", nb::kw_only(),
      nb::arg("mechanisms") = nb::make_tuple(), nb::arg("policies") = nb::make_tuple(),
      nb::arg("vanilla") = false, nb::arg("chained") = false, nb::arg("iterations").none() = nb::none(),
      nb::sig(
          "def plan(workload: Pipeline | Workload | str | os.PathLike[str] | dict[str, typing.Any], machine: "
          "str | os.PathLike[str] | dict[str, typing.Any] | MachineProfile = 'h200', *, mechanisms: "
          "collections.abc.Sequence[str] = (), policies: collections.abc.Sequence[str] = (), vanilla: bool = "
          "False, chained: bool = "
          "False, iterations: int | None = None) -> Plan"),
      "Chooses how the workload's kernels are synchronized, by simulation. Only these `mechanisms` "
      "(stream_order, pdl, wait_kernel, pdl_tiles, fused) and `policies` (TileSync, RowSync, ...) are "
      "tried, or all. `vanilla`: without the paper's optimizations. `chained`: the work is launched back to "
      "back.");
  m.def("generate", &header_of, nb::arg("plan"),
        "The plan's CUDA header: policies, tile orders and constants.");
  m.def(
      "explain", [](PlanValue const& plan, int alternatives) { return explain(plan.plan, alternatives); },
      nb::arg("plan"), nb::kw_only(), nb::arg("alternatives") = 8,
      "What was chosen, why, and why so many other candidates were not.");
  m.def("explain", &page_of, nb::arg("code"), "The page of a diagnostic: explain(\"E0103\").");
  m.def(
      "report",
      [](PlanValue const& plan, std::string title, PlanValue const* stream_order) {
        return report_of({&plan}, std::move(title),
                         stream_order ? std::vector{stream_order} : std::vector<PlanValue const*>{});
      },
      nb::arg("plan"), nb::kw_only(), nb::arg("title") = "", nb::arg("stream_order").none() = nb::none(),
      "A page (HTML) of a plan, with its simulated timeline; beside it that of a plan in stream order.");
  m.def("report", &report_of, nb::arg("plans"), nb::kw_only(), nb::arg("title") = "",
        nb::arg("stream_order") = nb::make_tuple(), "A page of several plans: sizes of one workload.");
}

}  // namespace tessera::python
