// SPDX-License-Identifier: Apache-2.0
// What an SM's clock says, beside the time: two stamps give the clock's mean frequency in between.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::bench {

struct Stamp {
  long long cycles = 0;
  unsigned long long nanoseconds = 0;
};

/// Writes one stamp for each SM that a block lands on; `stamps` has room for all SMs. Capturable.
cudaError_t stamp(Stamp* stamps, int sms, cudaStream_t stream);

}  // namespace tessera::bench
