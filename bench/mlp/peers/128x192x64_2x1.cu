// SPDX-License-Identifier: Apache-2.0
#include "stock.cuh"

namespace tessera::bench {
gemm_sm90::Kernel stock_128x192x64_2x1() {
  return Stock<128, 192, 64, 2, 1, false>::kernel("128x192x64_2x1");
}
}  // namespace tessera::bench
