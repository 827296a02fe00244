// SPDX-License-Identifier: Apache-2.0
// How the next token is chosen from logits. Plain values.
#pragma once

#include <cstdint>
#include <tessera/diagnostic.hpp>

namespace tessera::decode {

/// Logits are divided by `temperature`. Of the `top_k` most likely tokens so many are kept, the most likely
/// ones first, that together they have a probability of `top_p` among these, and one of them is drawn. A
/// number of the sequence, its position and the seed say which: the same, whatever is computed beside it.
struct Sampling {
  double temperature = 0;  ///< 0: the most likely token, and the rest says nothing
  int top_k = 0;           ///< 0: all tokens
  double top_p = 1;        ///< above 0, 1 at most
  std::uint64_t seed = 0;

  bool draws() const { return temperature != 0; }
};

/// Refuses (E0566) temperatures other than 0 and 10^-4 to 10^4, and what is no number of tokens or no
/// probability.
Expected<void> check_sampling(Sampling const& sampling);

}  // namespace tessera::decode
