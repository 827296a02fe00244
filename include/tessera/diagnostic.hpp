// SPDX-License-Identifier: Apache-2.0
// What goes wrong, as data: a stable code, the user's line, the numbers, a way out.
#pragma once

#include <source_location>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace tessera {

enum class Severity { error, warning };

/// A place in the user's text: a C++ source line, or a line of a JSON file. `line` 0: the whole file.
struct SourceLine {
  std::string file;
  int line = 0;

  static SourceLine here(std::source_location place = std::source_location::current()) {
    return {place.file_name(), static_cast<int>(place.line())};
  }
  bool operator==(SourceLine const&) const = default;
};

/// One finding. `code` is stable ("E0103") and has a page docs/diagnostics/<code>.md, which
/// `tessera explain <code>` prints. `message` is one sentence; `notes` carry tiles, grids, numbers;
/// `suggestion` says what to change.
struct Diagnostic {
  std::string code;
  Severity severity = Severity::error;
  SourceLine where;
  std::string message;
  std::vector<std::string> notes;
  std::string suggestion;

  bool operator==(Diagnostic const&) const = default;
};

/// At least one entry when it stands in for a value.
using Diagnostics = std::vector<Diagnostic>;

/// A value, or the reasons why there is none. `.value()` throws tl::bad_expected_access.
template <class T>
using Expected = tl::expected<T, Diagnostics>;

/// Text for a person:
///   mlp.cpp:23: error E0103: dependence reads gemm1 tiles outside its grid
///      first bad pair: gemm2(0, 0) -> gemm1(20, 0)
///      hint: ...
/// No colour, no trailing newline; control characters in names are written out (\x1b).
std::string to_text(Diagnostic const& diagnostic);
std::string to_text(Diagnostics const& diagnostics);

/// A refusal of one diagnostic, ready to return from a function that returns Expected<T>.
inline tl::unexpected<Diagnostics> refuse(Diagnostic diagnostic) {
  return tl::make_unexpected(Diagnostics{std::move(diagnostic)});
}

}  // namespace tessera
