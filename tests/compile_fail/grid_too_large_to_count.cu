// SPDX-License-Identifier: Apache-2.0
// expect: A semaphore counts less than 2^31 posts per launch
#include "tessera/sync.cuh"

struct Set {
  using Policy = tessera::GridSync;
  TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid() { return {2, {1 << 20, 1 << 10, 1, 1}}; }
#if defined(BAD)
  static constexpr int splits = 2;
#else
  static constexpr int splits = 1;
#endif
  static constexpr long long first = 0;
  static constexpr long long count = 1;
};
static_assert(tessera::SetOf<Set>::posts_of(0) != 0, "");
