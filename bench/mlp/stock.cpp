// SPDX-License-Identifier: Apache-2.0
#include "bench/mlp/peers.hpp"

namespace tessera::bench {

// One file of peers/ each.
gemm_sm90::Kernel stock_64x128x64_1x1();
gemm_sm90::Kernel stock_128x128x64_2x1();
gemm_sm90::Kernel stock_128x160x64_2x1();
gemm_sm90::Kernel stock_128x192x64_2x1();
gemm_sm90::Kernel stock_128x256x64_2x1();
gemm_sm90::Kernel stock_256x128x64_1x2();

std::vector<gemm_sm90::Kernel> const& stock_kernels() {
  static std::vector<gemm_sm90::Kernel> const all = {stock_64x128x64_1x1(),  stock_128x128x64_2x1(),
                                                     stock_128x160x64_2x1(), stock_128x192x64_2x1(),
                                                     stock_128x256x64_2x1(), stock_256x128x64_1x2()};
  return all;
}

}  // namespace tessera::bench
