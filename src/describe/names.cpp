// SPDX-License-Identifier: Apache-2.0
#include "describe/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 78> k_keywords{
    "alignas",       "alignof",     "and",        "asm",          "auto",     "bool",
    "break",         "case",        "catch",      "char",         "class",    "co_await",
    "co_return",     "co_yield",    "compl",      "concept",      "const",    "consteval",
    "constexpr",     "constinit",   "const_cast", "continue",     "decltype", "default",
    "delete",        "do",          "double",     "dynamic_cast", "else",     "enum",
    "explicit",      "export",      "extern",     "false",        "float",    "for",
    "friend",        "goto",        "if",         "inline",       "int",      "long",
    "mutable",       "namespace",   "new",        "noexcept",     "not",      "nullptr",
    "operator",      "or",          "private",    "protected",    "public",   "register",
    "requires",      "return",      "short",      "signed",       "sizeof",   "static",
    "static_assert", "static_cast", "struct",     "switch",       "template", "this",
    "throw",         "true",        "try",        "typedef",      "typename", "union",
    "unsigned",      "using",       "virtual",    "void",         "volatile", "while"};
constexpr std::array<std::string_view, 6> k_expression_words{"all", "clamp", "floor", "max", "min", "mod"};

constexpr std::size_t k_most_letters = 64;

bool is_keyword(std::string_view name) {
  return std::find(k_keywords.begin(), k_keywords.end(), name) != k_keywords.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > k_most_letters || !is_letter(name.front())) return false;
  bool const spelled = std::all_of(name.begin(), name.end(),
                                   [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
  return spelled && !is_keyword(name);
}

std::string name_hint(std::string_view name, std::string general) {
  if (is_keyword(name)) return "it is a keyword of C++: give another name";
  if (name.size() > k_most_letters)
    return fmt::format("it has {} letters, and a name has at most {}", name.size(), k_most_letters);
  if (name.starts_with('_')) return "names that begin with an underscore are reserved: give another name";
  return general;
}

bool is_dimension_name(std::string_view name) {
  return is_identifier(name) &&
         std::find(k_expression_words.begin(), k_expression_words.end(), name) == k_expression_words.end();
}

}  // namespace tessera
