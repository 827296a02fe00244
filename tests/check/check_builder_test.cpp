// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

TEST(CheckBuilder, ChecksWhatWasDescribed) {
  PipelineBuilder mlp("mlp");
  auto [x, y] = mlp.dims("x", "y");
  auto gemm1 = mlp.stage("gemm1", {x = 24, y = 4});
  auto gemm2 = mlp.stage("gemm2", {x = 48, y = 4});
  mlp.depends(gemm2(x, y), gemm1(all(x), y));
  auto const checked = check(mlp);
  ASSERT_TRUE(checked) << to_text(checked.error());
  EXPECT_EQ(checked->facts()[0], (DependenceFacts{48 * 4 * 24, 24, 24, 0}));
}

TEST(CheckBuilder, PointsAtTheUsersLine) {
  PipelineBuilder mlp("mlp");
  auto [x, y] = mlp.dims("x", "y");
  auto gemm1 = mlp.stage("gemm1", {x = 20, y = 4});
  auto gemm2 = mlp.stage("gemm2", {x = 48, y = 4});
  auto const line = __LINE__ + 1;
  mlp.depends(gemm2(x, y), gemm1(range(0, 24), y));
  auto const checked = check(mlp);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error()[0].code, "E0103");
  EXPECT_EQ(checked.error()[0].where, (SourceLine{__FILE__, line}));
}

}  // namespace
}  // namespace tessera
