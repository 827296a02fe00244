// SPDX-License-Identifier: Apache-2.0
// What planners take the kernels for is what the calls take.
#include <gtest/gtest.h>

#include <set>

#include "kernels/norm_rope/catalogue.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/norm_rope/rope.hpp"

namespace tessera {
namespace {

TEST(NormRopeCatalogue, NormsAreForTheRowsThatTheCallTakes) {
  int next = 4;
  for (auto const& kernel : norm_rope::catalogue()) {
    if (kernel.kind != OperatorKind::norm) continue;
    EXPECT_EQ(kernel.tile_k, next) << kernel.name;
    next = kernel.tile_n + 4;
  }
  EXPECT_EQ(next - 4, kernels::k_most_norm_columns);
  kernels::Norm problem;
  problem.rows = 1;
  for (int const columns : {2, 6, next}) {
    problem.columns = columns;
    EXPECT_EQ(kernels::norm(problem, nullptr), cudaErrorInvalidValue) << columns;
  }
}

TEST(NormRopeCatalogue, HeadsAreOfTheSizesThatTheCallTakes) {
  std::set<int> known;
  for (auto const& kernel : norm_rope::catalogue())
    if (kernel.kind == OperatorKind::turn_heads) known.insert(kernel.tile_n);
  EXPECT_EQ(known, (std::set<int>{64, 80, 96, 128, 256}));
  kernels::Heads heads;
  heads.rows = heads.key_heads = 1;
  for (int size = 8; size <= 512; size += 8) {
    if (known.count(size) != 0) continue;
    heads.head_size = size;
    EXPECT_EQ(kernels::turn_heads(heads, nullptr, 1, nullptr), cudaErrorInvalidValue) << size;
  }
}

}  // namespace
}  // namespace tessera
