// SPDX-License-Identifier: Apache-2.0
// The table of ways, and what is said below it.
#include "kernels/gemm_collectives/ways_table.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace tessera::gemm_collectives {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::vector<WayMeasured> some_rows() {
  return {{"product alone", "cublaslt(a)", 19.3, 19.2, 19.41, 0, false},
          {"sequential", "sequential, cublaslt(a)", 28.8, 28.7, 29, 2.1e-3, true},
          {"NCCL alone", "", 8, 7.9, 8.1, 0, false},
          {"words", "words, cublaslt(b)", 23.8, 23.6, 24.04, 1.9e-3, true}};
}

TEST(WaysTable, TheFastestIsFirstAndWhatIsAloneLast) {
  EXPECT_EQ(
      ways_table(some_rows(), 6e-3),
      "way                  us      10 %      90 %  error          kernel\n"
      "words              23.8      23.6      24.0  1.9e-03        words, cublaslt(b)\n"
      "sequential         28.8      28.7      29.0  2.1e-03        sequential, cublaslt(a)\n"
      "NCCL alone          8.0       7.9       8.1  -\n"
      "product alone      19.3      19.2      19.4  -              cublaslt(a)\n"
      "fastest: words, 1.21 times as fast as cuBLASLt and NCCL in sequence; 0.81 of the ideal, 19.3 us\n"
      "all results are right: at most 6.0e-03 off\n");
}

TEST(WaysTable, TheWireAndWhatIsBesideItAreNoPartOfTheIdeal) {
  auto rows = some_rows();
  rows.push_back({k_wire, "390 GB/s", 25.5, 25.5, 25.5, 0, false});
  rows.push_back({k_beside, "", 26, 26, 26, 0, false});
  EXPECT_THAT(ways_table(rows, 6e-3), testing::Not(HasSubstr("loses")));
  rows.push_back({k_beside_none, "", 25, 25, 25, 0, false});
  auto const text = ways_table(rows, 6e-3);
  EXPECT_THAT(text,
              HasSubstr("us\nthe product loses 4.0 % beside copies of what has to cross the link\nall"));
  EXPECT_THAT(text, HasSubstr("\nwire's floor       25.5      25.5      25.5  -              390 GB/s\n"));
  EXPECT_THAT(text, HasSubstr("; 0.81 of the ideal, 19.3 us\n"));
}

TEST(WaysTable, WrongResultsAreSaid) {
  for (double const error : {7e-3, static_cast<double>(NAN)}) {
    auto rows = some_rows();
    rows[3].error = error;
    auto const text = ways_table(rows, 6e-3);
    EXPECT_THAT(text, HasSubstr(std::isnan(error) ? "nan WRONG      words, " : "7.0e-03 WRONG  words, "));
    EXPECT_THAT(text, EndsWith("\nsome results are WRONG\n"));
    EXPECT_FALSE(all_right(rows, 6e-3));
  }
  EXPECT_TRUE(all_right(some_rows(), 6e-3));
}

TEST(WaysTable, WithoutNcclThereIsNothingToCompareWith) {
  auto rows = some_rows();
  rows.erase(rows.begin() + 1, rows.begin() + 3);
  EXPECT_THAT(ways_table(rows, 6e-3), HasSubstr("\nfastest: words\nall results"));
  EXPECT_THAT(ways_table({}, 6e-3), EndsWith("kernel\n"));
}

}  // namespace
}  // namespace tessera::gemm_collectives
