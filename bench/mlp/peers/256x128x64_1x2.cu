// SPDX-License-Identifier: Apache-2.0
#include "stock.cuh"

namespace tessera::bench {
gemm_sm90::Kernel stock_256x128x64_1x2() {
  return Stock<256, 128, 64, 1, 2, false>::kernel("256x128x64_1x2");
}
}  // namespace tessera::bench
