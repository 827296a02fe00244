// SPDX-License-Identifier: Apache-2.0
// Kernel fusion (Eq. 6): i launches of j units of work against j launches of i units do the same work, and
// differ by i - j launches. The units must be long enough to keep the stream full, else the host is measured.
#pragma once

#include <vector>

#include "host_timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::probe {

/// `launch(launches, units)` puts that many kernels on the stream, each with so many units of work. In ns per
/// launch, by the host's clock. Interleaved as in repeat_difference_of.
template <class Launch>
Cost kernel_fusion_of(cudaStream_t stream, int i, int j, int samples, Launch launch) {
  std::vector<double> many, few;
  auto const time = [&](int launches, int units) {
    return host_ns(stream, [&] {
      launch(launches, units);
      launched();
    });
  };
  for (int n = -2; n < samples; ++n) {
    double const a = time(i, j), b = time(j, i);
    if (n < 0) continue;
    many.push_back(a);
    few.push_back(b);
  }
  return kernel_fusion(many, few, i, j);
}

}  // namespace tessera::probe
