// SPDX-License-Identifier: Apache-2.0
// expect: plan mlp, stage gemm1 (mlp.cpp:12): the policy's number of semaphores is not the plan's
// A generated header after somebody changed a grid by hand.
#include "tessera/sync.cuh"

namespace mlp {
namespace grids {
#if defined(BAD)
TESSERA_HOST_DEVICE constexpr tessera::TileGrid gemm1() { return {2, {24, 5, 1, 1}}; }
#else
TESSERA_HOST_DEVICE constexpr tessera::TileGrid gemm1() { return {2, {24, 4, 1, 1}}; }
#endif
}  // namespace grids
namespace sets {
struct gemm1_0 {
  using Policy = tessera::RowSync;
  static constexpr long long count = 4;
};
static_assert(gemm1_0::Policy{}.count(grids::gemm1()) == gemm1_0::count,
              "plan mlp, stage gemm1 (mlp.cpp:12): the policy's number of semaphores is not the plan's");
}  // namespace sets
}  // namespace mlp
