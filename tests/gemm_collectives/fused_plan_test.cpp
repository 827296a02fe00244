// SPDX-License-Identifier: Apache-2.0
// How the one launch of few rows is cut: every column once, in blocks that an SM can hold.
#include "kernels/gemm_collectives/fused_plan.hpp"

#include <gtest/gtest.h>

namespace tessera::gemm_collectives {
namespace {

TEST(FusedPlan, BlocksHaveEveryColumnOnceAndFitAnSm) {
  constexpr int k_shared = 200 << 10;
  for (int const rows : {1, 3, 8, 9, 16, 17, 32})
    for (int columns = 8; columns <= 67'584; columns += columns < 4096 ? 8 : 1000) {
      auto const plan = fused_plan(rows, columns);
      ASSERT_GT(plan.tiles, 0) << columns;
      int const each = plan.passes * plan.columns();
      EXPECT_GE(plan.blocks * each, columns);
      EXPECT_LT((plan.blocks - 1) * each, columns) << "a block without columns";
      EXPECT_LE(plan.blocks, 132);
      EXPECT_LE(plan.threads(), 512);
      EXPECT_LE(plan.shared_bytes(rows), k_shared) << rows << " x " << columns;
      EXPECT_GE(8 * plan.row_tiles, rows);
      EXPECT_EQ(plan.row_stride() % 128, 64) << "rows of a in the same banks";
      EXPECT_GE(6 * plan.packets(rows), rows * plan.columns());
    }
}

TEST(FusedPlan, MoreRowsOrColumnsThanItCanTakeAreRefused) {
  EXPECT_EQ(fused_plan(33, 8192).tiles, 0);
  EXPECT_EQ(fused_plan(0, 8192).tiles, 0);
  EXPECT_EQ(fused_plan(8, 67'592).tiles, 0);
}

TEST(FusedPlan, ModelsLayersFillTheSms) {
  EXPECT_EQ(fused_plan(1, 8192).blocks, 128);
  EXPECT_EQ(fused_plan(1, 12288).blocks, 128);
  EXPECT_EQ(fused_plan(1, 18432).blocks, 128);
  EXPECT_EQ(fused_plan(1, 20480).blocks, 128);
}

}  // namespace
}  // namespace tessera::gemm_collectives
