// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "diagnostic/printable.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"

namespace tessera::cli {
namespace {

bool colour_wanted() {
  auto const* no_colour = std::getenv("NO_COLOR");
  auto const* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(no_colour && *no_colour) &&
         !(terminal && std::string_view(terminal) == "dumb");
}

int exit_code(std::string const& code) {
  if (code == "E0904" || code == "E0905" || code == "E0923" || code == "E0924")
    return k_no;  // what stands in a file
  if (code == "E0901" || code == "E0902" || code.rfind("E093", 0) == 0) return k_environment;
  // Names and sizes that come from the command line, though the library is who finds them out.
  bool const usage = code.rfind("E09", 0) == 0 || code == "E0602" || code == "E0216" || code == "E0220";
  return usage ? k_usage : k_no;
}

void write(std::FILE* out, std::string_view text) { std::fwrite(text.data(), 1, text.size(), out); }

/// The words "error E0103" and "warning E0104" in colour.
std::string coloured(std::string text) {
  for (auto const& [word, colour] : {std::pair{"error E", "31"}, std::pair{"warning E", "33"}})
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      auto const end = text.find(':', at);
      if (end == std::string::npos) break;
      text.insert(end, "\x1b[0m");
      auto const start = fmt::format("\x1b[1;{}m", colour);
      text.insert(at, start);
      at += start.size();
    }
  return text;
}

}  // namespace

void Session::print(std::string_view data) const {
  // JSON has its own escapes, and nothing may be added to it.
  if (json)
    write(stdout, data);
  else
    write(stdout, printable(data));
}

void Session::say(std::string const& line) const {
  if (!quiet) write(stderr, printable(line) + "\n");
}

void Session::progress(std::string const& line) const {
  if (quiet || !isatty(STDERR_FILENO)) return;
  write(stderr, "\r\x1b[K" + printable(line).substr(0, 100));
  std::fflush(stderr);
}

void Session::warn(Diagnostics const& warnings) const {
  if (warnings.empty() || quiet) return;
  auto const text = to_text(warnings) + "\n";
  write(stderr, colour_wanted() ? coloured(text) : text);
}

int Session::fail(Diagnostics const& reasons) const {
  progress("");
  auto const text = to_text(reasons) + "\n";
  write(stderr, colour_wanted() ? coloured(text) : text);
  if (json) print(print_diagnostics(reasons));
  return reasons.empty() ? static_cast<int>(k_internal) : exit_code(reasons.front().code);
}

Diagnostics complaint(std::string code, std::string message, std::string suggestion,
                      std::vector<std::string> notes) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.suggestion = std::move(suggestion);
  diagnostic.notes = std::move(notes);
  return {std::move(diagnostic)};
}

std::string several_json(std::string_view schema, std::string_view name,
                         std::vector<std::string> const& texts) {
  if (texts.size() == 1) return texts.front();
  JsonWriter json;
  json.begin_object().member("schema", schema).key(name).begin_array();
  for (auto const& text : texts) json.raw(std::string_view(text).substr(0, text.find_last_not_of('\n') + 1));
  return json.end_array().end_object().text() + '\n';
}

}  // namespace tessera::cli
