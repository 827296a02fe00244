// SPDX-License-Identifier: Apache-2.0
// The end of a step: logits, the next token, and what the next step begins with.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::decode {

/// All in device memory. `tokens` of a product are sequences here.
struct StepEnd {
  float* logits = nullptr;  ///< [sequence][vocabulary]; null: nobody reads them
  bool draws = false;       ///< a launch behind the head chooses the token, and begins the next step
  unsigned long long* best = nullptr;  ///< of each sequence, key_of(); zeroed before the first launch
  unsigned* arrived =
      nullptr;            ///< one, or of each sequence where the head is launches; zeroed before the first
  int* cached = nullptr;  ///< of each sequence; becomes one more, unless it has ended
  int const* known = nullptr;  ///< of each sequence: tokens of its prompt
  int* ids = nullptr;          ///< [sequence][capacity]: of the prompt, and what was generated
  int capacity = 0;
  int const* stops = nullptr;  ///< tokens with which a sequence ends
  int stop_count = 0;
  /// Of each sequence, zeroed when it begins: tokens with the one with which it has ended, and those behind
  /// which the largest logit was first not finite. 0: neither.
  int* ended = nullptr;
  int* not_finite = nullptr;
  void const* embedding = nullptr;  ///< [vocabulary][hidden]
  /// Where positions are learned: what is added to a token's row at each position, and what is subtracted
  /// from each of its elements, [capacity][hidden] and [vocabulary]. Null: neither. Read by kernels with
  /// extras alone.
  float const* positions = nullptr;
  float const* means = nullptr;
  float* stream = nullptr;  ///< [sequence][hidden], of residuals
  void* x = nullptr;        ///< the same, rounded
  int hidden = 0;
  int sequences = 0;
};

/// Orders logits, and among equal ones the lower token first. 0 is less than all; what is no number is more.
TESSERA_HOST_DEVICE constexpr unsigned long long key_of(unsigned bits, int token) {
  if (bits == 0x80000000u) bits = 0;                          // -0 is 0
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fffffff;  // of any sign
  unsigned const ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | ~static_cast<unsigned>(token);
}
TESSERA_HOST_DEVICE constexpr int token_of(unsigned long long key) {
  return static_cast<int>(~static_cast<unsigned>(key));
}
TESSERA_HOST_DEVICE constexpr unsigned logit_bits_of(unsigned long long key) {
  auto const ordered = static_cast<unsigned>(key >> 32);
  return (ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered;
}
TESSERA_HOST_DEVICE constexpr bool is_finite_key(unsigned long long key) {
  return (logit_bits_of(key) & 0x7fffffffu) < 0x7f800000u;
}

}  // namespace tessera::decode
