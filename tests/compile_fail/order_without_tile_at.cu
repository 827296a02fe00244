// SPDX-License-Identifier: Apache-2.0
// expect: A tile order must provide static tile_at(long long position)
#include "tessera/sync.cuh"

struct Backwards {
#if !defined(BAD)
  TESSERA_HOST_DEVICE static constexpr long long tile_at(long long position) { return 23 - position; }
#endif
};
static_assert(tessera::RequireOrder<Backwards>::met, "");
