// SPDX-License-Identifier: Apache-2.0
// The way that is taken without tuning, beside what was measured on two H200 (docs/peers.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {
namespace {

struct Size {
  Problem problem;
  std::map<std::string, double> us;  ///< by variant
};

/// Of the record, member by member in its order.
std::vector<Size> sizes_of(std::string const& text) {
  std::vector<Size> result;
  std::string variant;
  std::regex const members(
      R"re("(collective|rows|columns|depth|variant|us)": *(?:"([^"]*)"|([-0-9.e+]+)))re");
  for (std::sregex_iterator at(text.begin(), text.end(), members), end; at != end; ++at) {
    auto const name = (*at)[1].str(), word = (*at)[2].str(), number = (*at)[3].str();
    if (name == "collective") {
      result.emplace_back();
      result.back().problem.collective = word == "gemm_all_reduce"       ? Collective::all_reduce
                                         : word == "gemm_reduce_scatter" ? Collective::reduce_scatter
                                                                         : Collective::all_gather;
    } else if (name == "rows") {
      result.back().problem.rows = std::stoi(number);
    } else if (name == "columns") {
      result.back().problem.columns = std::stoi(number);
    } else if (name == "depth") {
      result.back().problem.depth = std::stoi(number);
    } else if (name == "variant") {
      variant = word;
    } else if (!variant.empty()) {
      result.back().us[variant] = std::stod(number);
      variant.clear();
    }
  }
  return result;
}

// An untuned call takes cuBLASLt's first guess, which the record does not tell from the others.
TEST(GemmCollectiveRecord, TheUntunedWayWithItsBestKernelIsFasterThanTheSequenceAndNearTheFastest) {
  std::stringstream text;
  text << std::ifstream(TESSERA_SOURCE_DIR "/results/h200x2/gemm_collectives.json").rdbuf();
  auto const sizes = sizes_of(text.str());
  ASSERT_EQ(sizes.size(), 53u);
  for (auto const& [problem, us] : sizes) {
    double fastest = us.at("sequential");
    for (auto const way : ways_of(problem))
      if (auto const found = us.find(to_string(way)); found != us.end())
        fastest = std::min(fastest, found->second);
    double const taken = us.at(to_string(choose_way(problem)));
    EXPECT_LT(taken, us.at("sequential")) << to_string(problem);
    EXPECT_LT(taken, 1.06 * fastest) << to_string(problem);
  }
}

}  // namespace
}  // namespace tessera::gemm_collectives
