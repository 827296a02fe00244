// SPDX-License-Identifier: Apache-2.0
// Random words by number: the same on the host and on the GPU, in any order.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::kernels {

struct RandomWords {
  unsigned word[4] = {};
};

/// Philox4x32 of ten rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; SC 2011).
TESSERA_HOST_DEVICE constexpr RandomWords philox(unsigned long long key, RandomWords counter) {
  unsigned first = static_cast<unsigned>(key), second = static_cast<unsigned>(key >> 32);
  auto [c] = counter;
  for (int round = 0; round < 10; ++round) {
    unsigned long long const even = 0xD2511F53ULL * c[0], odd = 0xCD9E8D57ULL * c[2];
    unsigned const next[4] = {static_cast<unsigned>(odd >> 32) ^ c[1] ^ first, static_cast<unsigned>(odd),
                              static_cast<unsigned>(even >> 32) ^ c[3] ^ second, static_cast<unsigned>(even)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    first += 0x9E3779B9, second += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

}  // namespace tessera::kernels
