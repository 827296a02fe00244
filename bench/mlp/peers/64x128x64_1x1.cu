// SPDX-License-Identifier: Apache-2.0
#include "stock.cuh"

namespace tessera::bench {
gemm_sm90::Kernel stock_64x128x64_1x1() { return Stock<64, 128, 64, 1, 1, true>::kernel("64x128x64_1x1"); }
}  // namespace tessera::bench
