// SPDX-License-Identifier: Apache-2.0
#include "generate/names.hpp"

#include <algorithm>
#include <array>

namespace tessera::generate {
namespace {

// C++20 keywords and alternative tokens, what nvcc adds, and system names that are macros in GNU mode.
constexpr auto k_taken = std::to_array<std::string_view>({
    "alignas",      "alignof",      "and",           "and_eq",
    "asm",          "auto",         "bitand",        "bitor",
    "bool",         "break",        "case",          "catch",
    "char",         "char16_t",     "char32_t",      "char8_t",
    "class",        "co_await",     "co_return",     "co_yield",
    "compl",        "concept",      "const",         "const_cast",
    "consteval",    "constexpr",    "constinit",     "continue",
    "decltype",     "default",      "delete",        "do",
    "double",       "dynamic_cast", "else",          "enum",
    "explicit",     "export",       "extern",        "false",
    "float",        "for",          "friend",        "goto",
    "if",           "inline",       "int",           "linux",
    "long",         "mutable",      "namespace",     "new",
    "noexcept",     "not",          "not_eq",        "nullptr",
    "operator",     "or",           "or_eq",         "private",
    "protected",    "public",       "register",      "reinterpret_cast",
    "requires",     "return",       "short",         "signed",
    "sizeof",       "static",       "static_assert", "static_cast",
    "struct",       "switch",       "template",      "this",
    "thread_local", "throw",        "true",          "try",
    "typedef",      "typeid",       "typename",      "union",
    "unix",         "unsigned",     "using",         "virtual",
    "void",         "volatile",     "wchar_t",       "while",
    "xor",          "xor_eq",
});

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_letter(name.front())) return false;
  if (!std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); }))
    return false;
  // Reserved: two underscores in a row, and an underscore before a capital or at a namespace's start.
  if (name.front() == '_' || name.find("__") != std::string_view::npos) return false;
  return std::find(k_taken.begin(), k_taken.end(), name) == k_taken.end();
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
  return is_identifier(name) && name != "tessera" ? name : name + "_plan";
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
