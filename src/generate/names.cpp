// SPDX-License-Identifier: Apache-2.0
#include "generate/names.hpp"

#include <algorithm>
#include <span>

#include "generate/macro_names.hpp"
#include "generate/taken_names.hpp"

namespace tessera::generate {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_one_of(std::span<std::string_view const> words, std::string_view name) {
  return std::find(words.begin(), words.end(), name) != words.end();
}

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_letter(name.front())) return false;
  if (!std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); }))
    return false;
  // Reserved: two underscores in a row, and an underscore before a capital or at a namespace's start.
  if (name.front() == '_' || name.find("__") != std::string_view::npos) return false;
  return !is_one_of(k_keywords, name) && !is_macro(name);
}

std::string as_identifier(std::string_view text) {
  std::string name;
  for (char const c : text) {
    if (is_letter(c) && c != '_')
      name += c;
    else if (is_digit(c))
      name += name.empty() ? std::string("plan_") + c : std::string(1, c);
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty()) return "plan";
  // POSIX keeps names that end in _t for types: size_t, int32_t.
  bool const is_type = name.size() > 2 && name.compare(name.size() - 2, 2, "_t") == 0;
  return is_identifier(name) && !is_type && !is_one_of(k_global_names, name) ? name : name + "_plan";
}

std::string joined(std::string_view before, std::string_view after) {
  std::string name(before);
  if (name.empty() || name.back() != '_') name += '_';
  return name += after;
}

std::string as_string(std::string_view text) {
  std::string escaped;
  for (char const c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return escaped;
}

std::string as_comment(std::string_view text) {
  std::string line;
  for (char const c : text) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  // A backslash at the end would swallow the next line.
  while (!line.empty() && (line.back() == '\\' || line.back() == ' ')) line.pop_back();
  return line;
}

}  // namespace tessera::generate
