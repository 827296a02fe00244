// SPDX-License-Identifier: Apache-2.0
// The way that is taken without tuning, beside what was measured (docs/peers.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <tuple>

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

std::vector<Size> record_of(std::string const& machine, int ranks) {
  std::stringstream text;
  text << std::ifstream(TESSERA_SOURCE_DIR "/results/" + machine + "/gemm_collectives.json").rdbuf();
  auto sizes = sizes_of(text.str());
  for (auto& one : sizes) one.problem.ranks = ranks;
  return sizes;
}

/// Of the way that is taken with its fastest kernel. What this record is older than has `else_way` in its
/// place.
double taken_us(Size const& size, Way else_way) {
  auto const way = choose_way(size.problem);
  return size.us.at(to_string(way == Way::fused && !size.us.contains("fused") ? else_way : way));
}

void expect_near_the_fastest(Size const& size, double taken) {
  double fastest = size.us.at("sequential");
  for (auto const way : ways_of(size.problem))
    if (auto const found = size.us.find(to_string(way)); found != size.us.end())
      fastest = std::min(fastest, found->second);
  EXPECT_LT(taken, 1.06 * fastest) << to_string(size.problem);
}

// An untuned call takes cuBLASLt's first guess, which the record does not tell from the others.
TEST(GemmCollectiveRecord, TheUntunedWayWithItsBestKernelIsFasterThanTheSequenceAndNearTheFastest) {
  auto const sizes = record_of("h200x2", 2);
  ASSERT_EQ(sizes.size(), 53u);
  for (auto const& size : sizes) {
    double const taken = taken_us(size, Way::words);
    EXPECT_LT(taken, size.us.at("sequential")) << to_string(size.problem);
    expect_near_the_fastest(size, taken);
  }
}

TEST(GemmCollectiveRecord, OnTwoAndFourOtherGpusItIsNeverSlowerThanTheSequence) {
  int in_sequence = 0;
  for (auto const& [machine, ranks, count] : {std::tuple{"h100x2", 2, 6u}, {"h100x4", 4, 40u}}) {
    auto const sizes = record_of(machine, ranks);
    ASSERT_EQ(sizes.size(), count);
    for (auto const& size : sizes) {
      double const taken = taken_us(size, Way::fused);
      in_sequence += choose_way(size.problem) == Way::sequential;
      EXPECT_LE(taken, size.us.at("sequential")) << to_string(size.problem);
      expect_near_the_fastest(size, taken);
    }
  }
  // 64 rows of 12288 columns, and shards of 128 rows, on four.
  EXPECT_EQ(in_sequence, 3);
}

}  // namespace
}  // namespace tessera::gemm_collectives
