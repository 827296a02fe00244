// SPDX-License-Identifier: Apache-2.0
#include "stock.cuh"

namespace tessera::bench {
gemm_sm90::Kernel stock_128x128x64_2x1() { return Stock<128, 128, 64, 2, 1, true>::kernel("128x128x64_2x1"); }
}  // namespace tessera::bench
