// SPDX-License-Identifier: Apache-2.0
#include "check/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace tessera::check_detail {
namespace {

constexpr std::string_view k_keywords[] = {
    "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
    "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
    "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
    "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
    "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
    "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
    "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
    "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
    "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
    "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
    "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
    "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
    "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
    "xor_eq",
};

}  // namespace

bool is_identifier(std::string_view name) {
  auto const letter = [](unsigned char c) { return c == '_' || (c < 128 && std::isalpha(c)); };
  auto const part = [&](unsigned char c) { return letter(c) || (c < 128 && std::isdigit(c)); };
  return !name.empty() && letter(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), part) &&
         std::find(std::begin(k_keywords), std::end(k_keywords), name) == std::end(k_keywords);
}

SourceLine place_of(Pipeline const& pipeline, Stage const& stage) {
  return stage.where.file.empty() ? pipeline.where : stage.where;
}

SourceLine place_of(Pipeline const& pipeline, Dependence const& dependence) {
  if (!dependence.where.file.empty()) return dependence.where;
  auto const consumer = static_cast<std::size_t>(dependence.consumer);
  return consumer < pipeline.stages.size() ? place_of(pipeline, pipeline.stages[consumer]) : pipeline.where;
}

std::string name_of(Pipeline const& pipeline, int stage) {
  auto const index = static_cast<std::size_t>(stage);
  auto const& name = pipeline.stages[index].name;
  return name.empty() ? fmt::format("stage {}", stage) : name;
}

std::string grid_text(Stage const& stage) {
  std::string text;
  for (auto const& dim : stage.grid) text += fmt::format("{}{}", text.empty() ? "" : " x ", dim.extent);
  return text;
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tessera::check_detail
