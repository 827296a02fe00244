// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

namespace tessera {
namespace {

struct Section {
  int level = 0;  ///< number of # of its heading; 0: what comes before the first
  std::string title;
  bool has_source = false;  ///< for the sections below it too, unless it is the whole page
  bool cites = false;       ///< for itself alone
  int first_line = 0;       ///< of a figure; 0: there is none
  std::string first;
  int figures = 0;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool says_source(std::string const& line) {
  static std::regex const source(
      "results/[a-z0-9]+|\\.json`|tessera (simulate|bench|probe|sweep|diff|tune|plan)|bench/[a-z_]+|"
      "scripts/[a-z_]+|no record");
  return std::regex_search(line, source);
}

/// A paper is a source by the place in it: others could not look the number up.
bool cites_paper(std::string const& line) {
  static std::regex const place(
      "[Pp]aper('s|,)?[^|]{0,60}([Tt]able|[Ff]igure|[Ss]ection|[Cc]hapter|[Aa]bstract)|"
      "([Tt]able|[Ff]igure|[Ss]ection|[Cc]hapter|[Aa]bstract)[^|]{0,60}[Pp]aper|arXiv:[0-9]");
  return std::regex_search(line, place);
}

void look_for_figures(std::string line, int number, Section& section) {
  static std::regex const code("`[^`]*`");
  static std::regex const figure(
      "(^|[^A-Za-z0-9.])([0-9][0-9.,]*) ?"
      "((\u00b5s|us|ns|ms|[KMGT]i?B/s|[GT]FLOP(/s|S)|[MG]LUPS|cycles|clocks|x|(micro|nano|milli)seconds?|"
      "percent|times (as )?(fast|slow)(er)?)\\b|%|"
      "\u00d7(?! ?[0-9a-zA-Z]))");
  line = std::regex_replace(line, code, "");
  for (std::sregex_iterator it(line.begin(), line.end(), figure), end; it != end; ++it) {
    if (section.figures++ == 0) {
      section.first_line = number;
      section.first = fmt::format("{} {}", (*it)[2].str(), (*it)[3].str());
    }
  }
}

std::vector<Section> sections_of(std::string_view page) {
  std::vector<Section> sections(1);
  bool code = false;
  int number = 0;
  for (auto const& line : lines_of(page)) {
    ++number;
    if (line.starts_with("```")) code = !code;
    auto const level = line.find_first_not_of('#');
    bool const heading = !code && level != std::string::npos && level > 0 && line[level] == ' ';
    if (heading) {
      sections.emplace_back();
      sections.back().level = static_cast<int>(level);
      sections.back().title = line.substr(level + 1);
    }
    auto& section = sections.back();
    section.has_source = section.has_source || says_source(line);
    section.cites = section.cites || (!heading && cites_paper(line));
    if (!code) look_for_figures(line, number, section);
  }
  return sections;
}

}  // namespace

Diagnostics figures_without_source(std::string_view page, std::string_view path) {
  Diagnostics found;
  std::vector<Section const*> around;  // headings that the section lies under
  auto const sections = sections_of(page);
  for (auto const& section : sections) {
    while (!around.empty() && around.back()->level >= section.level) around.pop_back();
    around.push_back(&section);
    // Under the page's title stands everything: what is said there is said of its own lines.
    bool const has_source = section.cites || std::any_of(around.begin(), around.end(), [&](Section const* s) {
                              return s->has_source && (s->level > 1 || s == &section);
                            });
    if (section.figures == 0 || has_source) continue;
    found.push_back({"E0938",
                     Severity::warning,
                     {std::string(path), section.first_line},
                     fmt::format("section \"{}\" does not say where its figures come from: {}, the first {}",
                                 section.title, section.figures, section.first),
                     {},
                     "name the record under results/, or the command; or say that there is no record"});
  }
  return found;
}

Diagnostics gaps_of_record(std::string_view record, std::string_view path) {
  auto const has = [&](std::string const& pattern) {
    return std::regex_search(record.begin(), record.end(), std::regex(pattern));
  };
  if (has("\"command\": *\"[^\"]*results/")) return {};
  std::vector<std::string> missing;
  for (auto const& [what, pattern] :
       {std::pair{"commit", "\"commit\": *\"[0-9a-f]{7}"},
        {"date", "\"date\": *\"20[0-9]{2}-"},
        {"machine", "\"(machine|gpu)\": *\""},
        {"driver", "\"driver\": *\""},
        {"clocks", "\"[a-z_]*(clocks|mhz|ghz|cycles)\": *(?!\\{\\s*\\}|\"\"|null)[^\\s]"},
        {"command", "\"command\": *\""}})
    if (!has(pattern)) missing.emplace_back(what);
  if (missing.empty()) return {};
  Diagnostic gap;
  gap.code = "E0939";
  gap.severity = Severity::warning;
  gap.where = {std::string(path), 0};
  gap.message = fmt::format("the record does not say {}", fmt::join(missing, ", "));
  gap.suggestion = "make it again with the command that its folder's README names";
  return {std::move(gap)};
}

}  // namespace tessera
