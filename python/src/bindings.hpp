// SPDX-License-Identifier: Apache-2.0
// What the files of the extension tessera._core share. Each bind_*() adds its classes and functions to the
// module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>

#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"
#include "tools/tessera/files.hpp"

namespace tessera::python {

namespace nb = nanobind;

void bind_diagnostics(nb::module_& m);
void bind_describe(nb::module_& m);
void bind_documents(nb::module_& m);
void bind_check(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_timeline(nb::module_& m);
void bind_cli(nb::module_& m);

/// Becomes tessera.Error.
struct Refused {
  Diagnostics diagnostics;
};

/// The value, or tessera.Error.
template <class T>
T value_of(Expected<T> expected) {
  if (!expected) throw Refused{std::move(expected.error())};
  if constexpr (!std::is_void_v<T>) return std::move(*expected);
}

/// The line of Python that called; nothing where there is none.
SourceLine calling_line();

/// Shows each as a Python warning at the line that called.
void warn(Diagnostics const& warnings);

/// What stands for a workload in a call: a Workload, a Pipeline, a name, a path, or a document as a dict.
Workload workload_of(nb::handle given);

/// As workload_of(), ready to be planned: a loop is written out so often (E0906 without `iterations`).
Workload flat_workload_of(nb::handle given, std::optional<int> iterations);

/// A MachineProfile, a name, a path, or a document as a dict.
MachineProfile machine_of(nb::handle given);

/// The path of a str or of what has __fspath__().
std::string path_of(nb::handle given);

/// to_json() and save() of a class, of what `text` says.
template <class Class, class Text>
void add_document(Class& bound, char const* schema, Text text) {
  using Value = typename Class::Type;
  bound.def(
      "to_json", [text](Value const& self) { return std::string(text(self)); }, schema);
  bound.def(
      "save",
      [text](Value const& self, nb::handle path) {
        value_of(cli::write_file(path_of(path), std::string(text(self))));
      },
      nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
      "Writes to_json() into a file, whole or not at all.");
}

/// str() of a class, which a notebook shows in place of repr() where it shows no HTML.
template <class Class, class Text>
void add_text(Class& bound, Text text) {
  using Value = typename Class::Type;
  bound.def("__str__", [text](Value const& self) { return std::string(text(self)); });
  bound.def(
      "_repr_pretty_",
      [text](Value const& self, nb::handle printer, bool) { printer.attr("text")(std::string(text(self))); },
      nb::arg("printer"), nb::arg("cycle"),
      nb::sig("def _repr_pretty_(self, printer: typing.Any, cycle: bool) -> None"));
}

/// A workload that stands in one file: what Python's name for it holds.
struct WorkloadValue {
  Workload workload;
  std::optional<CheckedPipeline> checked = {};  ///< of a loop, which is `workload` written out
};

}  // namespace tessera::python
