// SPDX-License-Identifier: Apache-2.0
#include "json/workload_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace tessera::json {
namespace {

/// Splits the last path component off.
std::string take_last(std::string& path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  auto const slash = path.rfind('/');
  auto const last = slash == std::string::npos ? path : path.substr(slash + 1);
  path = slash == std::string::npos ? std::string() : path.substr(0, slash);
  return last;
}

constexpr std::size_t k_longest_name = 200;

bool has_control(std::string const& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

void check_name(Document& document, ObjectReader& reader, char const* what) {
  auto const* name = reader.find("name");
  if (name == nullptr || !name->is(Node::Kind::string)) return;
  auto const& text = name->text();
  if (text.empty() || text.size() > k_longest_name || has_control(text))
    document.report(*name, document.codes().value,
                    fmt::format("\"name\" of {} must have 1 to {} bytes, none of them a control character",
                                what, k_longest_name));
}

void check_line(Document& document, ObjectReader& reader, char const* name) {
  auto const* node = reader.find(name);
  if (node != nullptr && has_control(node->text()))
    document.report(*node, document.codes().value, fmt::format("\"{}\" has control characters in it", name));
}

std::string stem_of(std::string const& file) {
  auto path = file;
  auto name = take_last(path);
  constexpr std::string_view k_ending = ".json";
  if (name.size() > k_ending.size() &&
      name.compare(name.size() - k_ending.size(), k_ending.size(), k_ending) == 0)
    name.resize(name.size() - k_ending.size());
  if (name != "config") return name.empty() ? "model" : name;
  auto const folder = take_last(path);
  return folder.empty() || folder == "." || folder == ".." ? "model" : folder;
}

}  // namespace tessera::json
