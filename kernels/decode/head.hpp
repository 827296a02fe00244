// SPDX-License-Identifier: Apache-2.0
// The end of a step: logits, the most likely token, and what the next step begins with.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::decode {

/// All in device memory. `tokens` of a product are sequences here.
struct StepEnd {
  float* logits = nullptr;             ///< [sequence][vocabulary]; null: nobody reads them
  unsigned long long* best = nullptr;  ///< of each sequence, key_of(); zeroed before the first launch
  unsigned* arrived = nullptr;         ///< zeroed before the first launch
  int* cached = nullptr;               ///< of each sequence; becomes one more
  int const* known = nullptr;          ///< of each sequence: tokens of its prompt
  int* ids = nullptr;                  ///< [sequence][capacity]: of the prompt, and what was generated
  int capacity = 0;
  void const* embedding = nullptr;  ///< [vocabulary][hidden]
  float* stream = nullptr;          ///< [sequence][hidden], of residuals
  void* x = nullptr;                ///< the same, rounded
  int hidden = 0;
  int sequences = 0;
};

/// Orders logits, and among equal ones the lower token first. 0 is less than all.
TESSERA_HOST_DEVICE inline unsigned long long key_of(unsigned bits, int token) {
  if (bits == 0x80000000u) bits = 0;  // -0 is 0
  unsigned const ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | ~static_cast<unsigned>(token);
}
TESSERA_HOST_DEVICE constexpr int token_of(unsigned long long key) {
  return static_cast<int>(~static_cast<unsigned>(key));
}

}  // namespace tessera::decode
