// SPDX-License-Identifier: Apache-2.0
// How the next token is chosen from logits. Plain values.
#pragma once

#include <cstdint>

namespace tessera::decode {

/// Logits are divided by `temperature`; of the `top_k` most likely tokens those are kept that are needed for
/// a probability of `top_p`, the most likely ones first, and one of them is drawn. The same seed gives the
/// same tokens, whatever else is computed beside the sequence.
struct Sampling {
  double temperature = 0;  ///< 0: the most likely token, and the rest says nothing
  int top_k = 0;           ///< 0: all tokens
  double top_p = 1;        ///< above 0, 1 at most
  std::uint64_t seed = 0;
};

}  // namespace tessera::decode
