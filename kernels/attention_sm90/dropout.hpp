// SPDX-License-Identifier: Apache-2.0
// Which weights are dropped: Philox's numbers of 16 bits, one for each query and key, the same on the host
// and on the GPU and whatever the tiles are.
#pragma once

#include "kernels/common/philox.hpp"

namespace tessera::attention_sm90 {

/// Weights whose number is below are dropped: drop is rounded to a multiple of 2^-16.
TESSERA_HOST_DEVICE constexpr unsigned drop_below(float drop) {
  return static_cast<unsigned>(drop * 65536.0f + 0.5f);
}

/// Eight numbers at once: word 2 * a + b, half c is that of the query 8 * a and the key 8 * b + c further on.
/// `queries`: query / 16 * 8 + query % 8; `keys`: key / 16 * 4 + key % 8 / 2.
TESSERA_HOST_DEVICE constexpr kernels::RandomWords drop_words(unsigned long long seed, int sequence, int head,
                                                              int queries, int keys) {
  return kernels::philox(seed, {{static_cast<unsigned>(keys), static_cast<unsigned>(queries),
                                 static_cast<unsigned>(head), static_cast<unsigned>(sequence)}});
}
TESSERA_HOST_DEVICE constexpr unsigned drop_number(kernels::RandomWords const& words, int word, int half) {
  return words.word[word] >> (16 * half) & 0xffffu;
}

/// One number.
TESSERA_HOST_DEVICE constexpr unsigned drop_number(unsigned long long seed, int sequence, int head, int query,
                                                   int key) {
  auto const words = drop_words(seed, sequence, head, query / 16 * 8 + query % 8, key / 16 * 4 + key % 8 / 2);
  return drop_number(words, query / 8 % 2 * 2 + key / 8 % 2, key % 2);
}

}  // namespace tessera::attention_sm90
