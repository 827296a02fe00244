// SPDX-License-Identifier: Apache-2.0
// Diagnostics as values, and refusals as tessera.Error.
#include <fmt/format.h>

#include "bindings.hpp"

namespace tessera::python {
namespace {

void raise(Diagnostics const& diagnostics) {
  try {
    nb::object const error = nb::module_::import_("tessera._error").attr("Error")(nb::cast(diagnostics));
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

}  // namespace

SourceLine calling_line() {
  auto* const frame = PyEval_GetFrame();
  if (frame == nullptr) return {};
  nb::object const code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return {nb::cast<std::string>(code.attr("co_filename")), PyFrame_GetLineNumber(frame)};
}

void warn(Diagnostics const& warnings) {
  for (auto const& warning : warnings)
    if (PyErr_WarnEx(PyExc_UserWarning, to_text(warning).c_str(), 1) != 0) throw nb::python_error();
}

void bind_diagnostics(nb::module_& m) {
  nb::class_<SourceLine>(m, "SourceLine", "A place in the user's text: a line of Python, or of a JSON file.")
      .def_ro("file", &SourceLine::file)
      .def_ro("line", &SourceLine::line, "0: the whole file")
      .def("__repr__", [](SourceLine const& self) { return fmt::format("{}:{}", self.file, self.line); });

  nb::class_<Diagnostic>(m, "Diagnostic", "One finding. `tessera.explain(code)` is its page.")
      .def(
          "__init__",
          [](Diagnostic* self, std::string code, std::string message, std::string file, int line,
             std::vector<std::string> notes, std::string suggestion) {
            new (self) Diagnostic{.code = std::move(code),
                                  .where = {std::move(file), line},
                                  .message = std::move(message),
                                  .notes = std::move(notes),
                                  .suggestion = std::move(suggestion)};
          },
          nb::arg("code"), nb::arg("message"), nb::kw_only(), nb::arg("file") = "", nb::arg("line") = 0,
          nb::arg("notes") = std::vector<std::string>{}, nb::arg("suggestion") = "",
          "What the package's own parts in Python find.")
      .def_ro("code", &Diagnostic::code, "\"E0103\"")
      .def_prop_ro(
          "severity",
          [](Diagnostic const& self) { return self.severity == Severity::error ? "error" : "warning"; },
          "\"error\" or \"warning\"")
      .def_ro("where", &Diagnostic::where)
      .def_ro("message", &Diagnostic::message, "One sentence.")
      .def_ro("notes", &Diagnostic::notes, "Tiles, grids, numbers.")
      .def_ro("suggestion", &Diagnostic::suggestion, "What to change.")
      .def("__str__", [](Diagnostic const& self) { return to_text(self); })
      .def("__repr__", [](Diagnostic const& self) {
        return fmt::format("<tessera.Diagnostic {}: {}>", self.code, self.message);
      });

  nb::register_exception_translator([](std::exception_ptr const& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (Refused const& refused) {
      raise(refused.diagnostics);
    }
  });
}

}  // namespace tessera::python
