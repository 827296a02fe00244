// SPDX-License-Identifier: Apache-2.0
// Words that a program beside the command line is started with.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <tessera/diagnostic.hpp>
#include <type_traits>
#include <utility>

namespace tessera::command {

/// E0908, of words that `run_by` does not write.
inline tl::unexpected<Diagnostics> wrong_words(std::string message, char const* run_by) {
  Diagnostic one;
  one.code = "E0908";
  one.message = std::move(message);
  one.suggestion = std::string("this program is run by ") + run_by;
  return refuse(std::move(one));
}

/// The whole word as a finite number; false if it is none, or one that `number` does not hold.
template <class T>
bool read_number(std::string const& word, T& number) {
  auto const* const end = word.data() + word.size();
  auto const [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end) return false;
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(number);
  return true;
}

}  // namespace tessera::command
