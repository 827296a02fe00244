// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::cli {
namespace {

bool is_decimal(std::string_view word) {
  double value = 0;
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() && std::isfinite(value);
}

/// Whether it is decimal digits; without zeros in front, with which CLI11 reads octal digits.
bool make_whole(std::string& word, bool signed_too) {
  bool const negative = signed_too && word.starts_with('-');
  auto digits = word.substr(negative ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  word = (negative ? "-" : "") + digits;
  return true;
}

/// CLI11 takes the nearest number of 64 bits for one that is beyond.
template <typename Number>
bool fits(std::string const& word) {
  Number number{};
  return std::from_chars(word.data(), word.data() + word.size(), number).ec == std::errc{};
}

/// What is wrong with a value, in words; empty if nothing is. `type` is CLI11's: "INT", "UINT", "FLOAT".
std::string complaint_about(std::string& word, std::string_view type) {
  if (word.empty()) return "needs a value, not an empty one";
  auto const shown = word.substr(0, 60);
  bool const is_signed = type.starts_with("INT"), is_unsigned = type.starts_with("UINT");
  if ((is_signed && !make_whole(word, true)) || (is_unsigned && !make_whole(word, false)))
    return fmt::format("\"{}\" is not a whole number{}", shown, is_unsigned ? " from 0 up" : "");
  if ((is_signed && !fits<std::int64_t>(word)) || (is_unsigned && !fits<std::uint64_t>(word)))
    return fmt::format("{} has more than 64 bits", shown);
  if (type.starts_with("FLOAT") && !is_decimal(word)) return fmt::format("\"{}\" is not a number", shown);
  return "";
}

}  // namespace

void check_option_values(CLI::App& app) {
  for (auto* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    // Before what the option itself asks of its values.
    option->transform(CLI::Validator(
        [type = option->get_type_name()](std::string& word) { return complaint_about(word, type); }, ""));
  }
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; })) check_option_values(*command);
}

}  // namespace tessera::cli
