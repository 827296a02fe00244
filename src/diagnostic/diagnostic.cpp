// SPDX-License-Identifier: Apache-2.0
#include "tessera/diagnostic.hpp"

#include <fmt/format.h>

#include "diagnostic/printable.hpp"

namespace tessera {

std::string to_text(Diagnostic const& diagnostic) {
  std::string text;
  if (!diagnostic.where.file.empty()) {
    text += diagnostic.where.file;
    if (diagnostic.where.line > 0) text += fmt::format(":{}", diagnostic.where.line);
    text += ": ";
  }
  text += fmt::format("{} {}: {}", diagnostic.severity == Severity::error ? "error" : "warning",
                      diagnostic.code, diagnostic.message);
  for (auto const& note : diagnostic.notes) text += "\n   " + note;
  if (!diagnostic.suggestion.empty()) text += "\n   hint: " + diagnostic.suggestion;
  return printable(text);
}

std::string to_text(Diagnostics const& diagnostics) {
  std::string text;
  for (auto const& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_text(diagnostic);
  }
  return text;
}

}  // namespace tessera
