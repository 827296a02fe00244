// SPDX-License-Identifier: Apache-2.0
// Repeat difference (Eq. 7 and 8): what is not repeated (launch, copy of arguments, warm-up of a kernel)
// drops out.
#pragma once

#include <vector>

#include "host_timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::probe {

/// `sample(repeats)` runs once with so many repetitions and returns what it took, in any unit. Taken in
/// pairs, in turns the one and the other first; three pairs go before to warm up.
template <class Sample>
Cost repeat_difference_of(int few, int many, int samples, Sample sample) {
  std::vector<double> long_runs, short_runs;
  for (int i = -3; i < samples; ++i) {
    double first = sample(i % 2 == 0 ? many : few), second = sample(i % 2 == 0 ? few : many);
    if (i < 0) continue;
    long_runs.push_back(i % 2 == 0 ? first : second);
    short_runs.push_back(i % 2 == 0 ? second : first);
  }
  return repeat_difference(long_runs, many, short_runs, few);
}

/// The same by the host's clock, ns: `launch(repeats)` puts one kernel on the stream. Kernels of less than
/// some 10 us measure the host.
template <class Launch>
Cost host_repeat_difference(cudaStream_t stream, int few, int many, int samples, Launch launch) {
  return repeat_difference_of(few, many, samples, [&](int repeats) {
    return host_ns(stream, [&] {
      launch(repeats);
      launched();
    });
  });
}

/// And by events.
template <class Launch>
Cost event_repeat_difference(cudaStream_t stream, int few, int many, int samples, Launch launch) {
  EventTimer timer;
  return repeat_difference_of(few, many, samples, [&](int repeats) {
    return timer.ns(stream, [&] {
      launch(repeats);
      launched();
    });
  });
}

}  // namespace tessera::probe
