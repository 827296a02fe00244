// SPDX-License-Identifier: Apache-2.0
// Two kernels, of which the second may start early.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::launching {

struct Times {
  unsigned long long first_ended = 0, second_started = 0;
};

using First = void (*)(unsigned* word, unsigned value, Times* times);
using Second = void (*)(unsigned const* word, unsigned value, unsigned* wrong, Times* times);

/// One block. Triggers, works for 50 us, writes the word.
First first();
/// One block. Waits, then looks whether the word is there.
Second second();

}  // namespace tessera::launching
