// SPDX-License-Identifier: Apache-2.0
#include "printed_diagnostics.hpp"

#include <regex>
#include <string>

namespace tessera::cli {
namespace {

constexpr std::string_view k_indent = "   ", k_hint = "hint: ";

/// Without a progress that was redrawn in front of it.
std::string last_drawn(std::string const& line) {
  constexpr std::string_view k_wipe = "\x1b[K";
  auto const wiped = line.rfind(k_wipe);
  return wiped == std::string::npos ? line : line.substr(wiped + k_wipe.size());
}

bool begins_one(std::string const& line, Diagnostic& one) {
  static std::regex const first("^(?:(.+?)(?::([0-9]{1,9}))?: )?(error|warning) (E[0-9]{4}): (.*)$");
  std::smatch found;
  if (line.size() > 4096 || !std::regex_match(line, found, first)) return false;
  one = {};
  one.where = {found[1].str(), found[2].matched ? std::stoi(found[2].str()) : 0};
  one.severity = found[3] == "error" ? Severity::error : Severity::warning;
  one.code = found[4];
  one.message = found[5];
  return true;
}

}  // namespace

Diagnostics printed_diagnostics(std::string_view text) {
  Diagnostics all;
  bool inside = false;  // of one, whose further lines are indented
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    auto const line = last_drawn(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    Diagnostic one;
    if (begins_one(line, one)) {
      all.push_back(std::move(one));
      inside = true;
    } else if (inside && line.starts_with(k_indent)) {
      auto const rest = line.substr(k_indent.size());
      if (rest.starts_with(k_hint))
        all.back().suggestion = rest.substr(k_hint.size());
      else
        all.back().notes.push_back(rest);
    } else {
      inside = false;
    }
  }
  return all;
}

}  // namespace tessera::cli
