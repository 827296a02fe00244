// SPDX-License-Identifier: Apache-2.0
// The report's look inside a page of somebody else: every rule holds for the class "tessera" alone.
#include <fmt/format.h>

#include <algorithm>

#include "report/html_parts.hpp"
#include "report/html_style.hpp"
#include "report/text.hpp"

namespace tessera::report {
namespace {

constexpr std::string_view k_class = ".tessera";

/// "body" and ":root" are the element itself; all else is inside it.
std::string scoped_selector(std::string_view selector) {
  if (selector == ":root" || selector == "body") return std::string(k_class);
  return fmt::format("{} {}", k_class, selector);
}

std::string scoped_selectors(std::string_view list) {
  std::string out;
  while (!list.empty()) {
    auto const end = std::min(list.find(','), list.size());
    if (!out.empty()) out += ',';
    out += scoped_selector(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

/// The rules of a style sheet without comments, each in front of its own. The sheet is ours: braces balance,
/// and nothing but @media holds rules.
std::string scoped(std::string_view rules) {
  std::string out;
  while (true) {
    rules.remove_prefix(std::min(rules.find_first_not_of(" \n"), rules.size()));
    auto const open = rules.find('{');
    if (open == std::string_view::npos) return out;
    auto const head = rules.substr(0, open);
    std::size_t close = open + 1;
    for (int depth = 1; depth > 0; ++close) depth += rules[close] == '{' ? 1 : rules[close] == '}' ? -1 : 0;
    auto const body = rules.substr(open + 1, close - open - 2);
    if (head.front() == '@')
      out += fmt::format("{}{{{}}}\n", head, scoped(body));
    else
      out += fmt::format("{}{{{}}}\n", scoped_selectors(head), body);
    rules.remove_prefix(close);
  }
}

}  // namespace

std::string fragment_head(std::string const& title) {
  static std::string const style = scoped(k_style);
  return fmt::format("<div class=\"tessera\"><style>{}</style>\n<h3>{}</h3>\n", style, html(title));
}

}  // namespace tessera::report
