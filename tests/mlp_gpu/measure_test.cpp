// SPDX-License-Identifier: Apache-2.0
// What of the measuring needs no GPU: who goes to the final.
#include <gmock/gmock.h>

#include "kernels/mlp/measure/screen.hpp"

namespace tessera::mlp {
namespace {

using testing::ElementsAre;

std::vector<std::string> final_names(std::vector<std::tuple<char const*, Source, double>> const& tried,
                                     std::size_t keep) {
  Screened screened;
  for (auto const& [name, source, time] : tried) {
    Candidate one;
    one.name = name;
    one.source = source;
    screened.candidates.push_back(one);
    screened.times.push_back(time);
  }
  std::vector<std::string> names;
  for (auto const& one : finalists(screened, keep)) names.push_back(one.name);
  return names;
}

TEST(Finalists, AreTheFastestAndTwoOfEachSource) {
  EXPECT_THAT(final_names({{"lt 1", Source::cublaslt, 9},
                           {"lt 2", Source::cublaslt, 8},
                           {"lt 3", Source::cublaslt, 7},
                           {"a", Source::gemm_sm90, 1},
                           {"b", Source::gemm_sm90, 2},
                           {"c", Source::gemm_sm90, 3},
                           {"one launch", Source::skinny, 20}},
                          1),
              ElementsAre("lt 2", "lt 3", "a", "b", "one launch"));
}

TEST(Finalists, AreNotOneKindInManyOrders) {
  // The third order of a kind stays out although it is faster than the other kind; so does what came twice.
  EXPECT_THAT(final_names({{"x band 1 blocks 0 > y band 8 blocks 132; pdl", Source::gemm_sm90, 1},
                           {"x band 4 blocks 0 > y band 8 blocks 132; pdl", Source::gemm_sm90, 2},
                           {"x band 4 blocks 0 > y band 8 blocks 132; pdl", Source::gemm_sm90, 2.5},
                           {"x band 8 blocks 0 > y band 8 blocks 132; pdl", Source::gemm_sm90, 3},
                           {"x band 1 blocks 0 > y band 8 blocks 132; row", Source::gemm_sm90, 4},
                           {"x band 1 blocks 0 > z band 8 blocks 132; pdl", Source::gemm_sm90, 5}},
                          4),
              ElementsAre("x band 1 blocks 0 > y band 8 blocks 132; pdl",
                          "x band 4 blocks 0 > y band 8 blocks 132; pdl",
                          "x band 1 blocks 0 > y band 8 blocks 132; row",
                          "x band 1 blocks 0 > z band 8 blocks 132; pdl"));
}

}  // namespace
}  // namespace tessera::mlp
