// SPDX-License-Identifier: Apache-2.0
#include "json/workload_parts.hpp"

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

}  // namespace

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
