// SPDX-License-Identifier: Apache-2.0
// Steps from the words of a record: what to_string() says of them.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "kernels/networks/steps.hpp"

namespace tessera::networks {

inline std::vector<Step> steps_of_words(std::string const& words) {
  static std::regex const form(
      R"((?:, )?layers? (\d+)(?: to (\d+))? (in a chain|in launches of their own|one by one))");
  std::vector<Step> result;
  for (std::sregex_iterator at(words.begin(), words.end(), form), end; at != end; ++at) {
    auto const& found = *at;
    std::size_t const first = std::stoul(found[1]);
    std::size_t const behind = (found[2].matched ? std::stoul(found[2]) : first) + 1;
    if (found[3] == "in a chain") {
      result.push_back({first, behind, true});
      continue;
    }
    for (auto n = first; n < behind; ++n)
      result.push_back({n, n + 1, false, found[3] == "in launches of their own"});
  }
  EXPECT_EQ(to_string(result), words);
  return result;
}

}  // namespace tessera::networks
