// SPDX-License-Identifier: Apache-2.0
#include "tessera/diagnostic.hpp"

#include <fmt/format.h>

#include "diagnostic/printable.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_longest_word = 400;  // no path or list in a message comes near

/// Of a word without spaces only the beginning: messages quote what stands in files, and shall not fill a
/// screen.
std::string with_short_words(std::string const& text) {
  std::string out;
  std::size_t word = 0;
  for (char const c : text) {
    bool const ends_word = c == ' ' || c == '\n';
    if (word == k_longest_word && !ends_word) out += "...";
    word = ends_word ? 0 : word + 1;
    if (word <= k_longest_word) out += c;
  }
  return out;
}

}  // namespace

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
  return printable(with_short_words(text));
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
