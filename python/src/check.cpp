// SPDX-License-Identifier: Apache-2.0
#include "tessera/check/check.hpp"

#include <fmt/format.h>

#include "bindings.hpp"
#include "tessera/report/report.hpp"
#include "tools/tessera/check_workload.hpp"

namespace tessera::python {
namespace {

/// A loop that is written out keeps what its iterations have in common.
std::optional<CheckedPipeline> checked_loop(nb::handle given, std::optional<int> iterations) {
  if (!iterations && nb::isinstance<WorkloadValue>(given))
    return nb::cast<WorkloadValue const&>(given).checked;
  auto const workload = workload_of(given);
  auto const* loop = std::get_if<Loop>(&workload);
  if (!iterations || loop == nullptr) return std::nullopt;
  return value_of(check(*loop, *iterations));
}

CheckedPipeline check_any(nb::handle given, std::optional<int> iterations, std::string const& architecture) {
  if (auto loop = checked_loop(given, iterations)) return *std::move(loop);
  auto const workload = flat_workload_of(given, iterations);
  nb::gil_scoped_release const released;
  return value_of(check(value_of(cli::tiled(workload, architecture))));
}

}  // namespace

void bind_check(nb::module_& m) {
  nb::class_<DependenceFacts>(m, "DependenceFacts", "Exact facts about one dependence, by counting.")
      .def_ro("pairs", &DependenceFacts::pairs, "Pairs of a consumer tile and a producer tile.")
      .def_ro("min_producers", &DependenceFacts::min_producers,
              "Producer tiles that one consumer tile reads.")
      .def_ro("max_producers", &DependenceFacts::max_producers)
      .def_ro("unread_producers", &DependenceFacts::unread_producers,
              "Producer tiles that no consumer tile of this dependence reads.");
  nb::class_<CheckedPipeline> checked(m, "CheckedPipeline",
                                      "A pipeline that passed check(). str() is what was counted.");
  add_document(checked, "The document of schema tessera.check/1.", &check_json);
  add_text(checked, &check_text);
  checked.def_prop_ro("name", [](CheckedPipeline const& self) { return self.pipeline().name; })
      .def_prop_ro("facts", &CheckedPipeline::facts, "For each dependence.")
      .def_prop_ro("warnings", &CheckedPipeline::warnings)
      .def("__repr__", [](CheckedPipeline const& self) {
        return fmt::format("<tessera.CheckedPipeline {}: {} stages, {} dependences, {} warnings>",
                           self.pipeline().name, self.pipeline().stages.size(), self.facts().size(),
                           self.warnings().size());
      });
  m.def(
      "check", &check_any, nb::arg("workload"), nb::kw_only(), nb::arg("iterations").none() = nb::none(),
      nb::arg("architecture") = "sm_90",
      nb::sig("def check(workload: Pipeline | Workload | str | os.PathLike[str] | dict[str, typing.Any], *, "
              "iterations: int | None = None, architecture: str = 'sm_90') -> CheckedPipeline"),
      "Is it what its author meant? Bounds, cycles, coverage, buffer reuse; raises Error with every mistake. "
      "A model's operators are cut into tiles by the first kernels of `architecture` that fit.");
}

}  // namespace tessera::python
