// SPDX-License-Identifier: Apache-2.0
// Which token is drawn, by sorting all of them: what the GPU's search is held to, token for token.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/decode/draw.hpp"
#include "kernels/decode/head.hpp"

namespace tessera::decode::reference {

inline unsigned bits_of(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Keys of all tokens, the most likely first.
inline std::vector<unsigned long long> sorted_keys(std::vector<float> const& logits) {
  std::vector<unsigned long long> result;
  for (std::size_t i = 0; i < logits.size(); ++i)
    result.push_back(key_of(bits_of(logits[i]), static_cast<int>(i)));
  std::sort(result.rbegin(), result.rend());
  return result;
}

/// For the token of a sequence that comes to stand at `position`. Temperature 0: the most likely one.
inline int drawn(std::vector<float> const& logits, Sampling const& s, int sequence, int position) {
  auto keys = sorted_keys(logits);
  if (!s.draws() || !is_finite_key(keys.front())) return token_of(keys.front());
  float const most = logits[static_cast<std::size_t>(token_of(keys.front()))];
  auto const weight = [&](unsigned long long key) {
    return weight_of(logits[static_cast<std::size_t>(token_of(key))], most, logit_scale(s));
  };
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < keys.size())
    keys.resize(static_cast<std::size_t>(s.top_k));
  Amount all = 0;
  for (auto const key : keys) all += weight(key);
  Amount kept = 0;
  std::size_t count = 0;
  for (Amount const wanted = share_of(all, s.top_p); kept < wanted; ++count) kept += weight(keys[count]);
  Amount left = below(kept, random_bits(s.seed, sequence, position));
  for (std::size_t i = 0; i < count; ++i) {
    if (left < weight(keys[i])) return token_of(keys[i]);
    left -= weight(keys[i]);
  }
  return -1;
}

}  // namespace tessera::decode::reference
