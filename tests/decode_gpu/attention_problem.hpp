// SPDX-License-Identifier: Apache-2.0
// What tests of attention alone share: inputs with no numbers where nobody may read, and two launches held to
// plain arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <tessera/run/device.hpp>
#include <vector>

#include "decode/reference.hpp"
#include "decode_gpu/attention_launch.hpp"
#include "gpu/device_buffer.hpp"
#include "support/assert_ok.hpp"

namespace tessera::decode {

using Bits = std::vector<unsigned short>;  // of bf16

constexpr unsigned short k_poison = 0x7fff;  // no number

inline std::string heads_text(CacheShape const& cache, int group) {
  return std::to_string(cache.kv_heads) + " key heads of " + std::to_string(cache.head_size) + ", " +
         std::to_string(group) + " queries, ";
}

class RandomBits {
 public:
  explicit RandomBits(unsigned seed) : random_(seed) {}
  unsigned short number() { return reference::to_bf16(static_cast<float>(normal_(random_))); }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

/// Keys and values of positions [first(sequence), cached(sequence)); poison before and behind.
template <class First, class Cached>
void fill_cache(CacheShape const& cache, First const& first, Cached const& cached, RandomBits& random,
                bool zero_keys, Bits& keys, Bits& values) {
  keys.assign(cache.elements(), k_poison);
  values = keys;
  for (int l = 0; l < cache.layers; ++l)
    for (int b = 0; b < cache.batch; ++b)
      for (int h = 0; h < cache.kv_heads; ++h)
        for (int p = first(b); p < cached(b); ++p)
          for (int d = 0; d < cache.head_size; ++d) {
            keys[cache.at(l, b, h, p, d)] = zero_keys ? 0 : random.number();
            values[cache.at(l, b, h, p, d)] = random.number();
          }
}

inline reference::Numbers numbers_of(Bits const& bits, std::size_t first, std::size_t count) {
  reference::Numbers result;
  for (std::size_t i = first; i < first + count; ++i) result.push_back(reference::from_bf16(bits[i]));
  return result;
}

/// A key that was turned and stored: off by a rounding, and the arithmetic's own.
inline bool is_stored_key(unsigned short found, float expected) {
  return std::fabs(reference::from_bf16(found) - expected) <= std::fabs(expected) / 200 + 1e-5f;
}

/// Launches twice, and expects the same bits. `fill`: of each byte of the output before. As bf16 does it,
/// weights and results are rounded, too.
inline void expect_twice(Launch const& launch, int layers, gpu::DeviceBuffer<unsigned short>& output,
                         int fill, reference::Numbers const& exact, reference::Numbers const& as_bf16) {
  double const usual = reference::relative_error(reference::as(reference::Precision::bf16, as_bf16), exact);
  Bits before;
  for (int time = 0; time < 2; ++time) {
    output.fill(fill);
    ASSERT_OK(launch.launch(nullptr, layers));
    ASSERT_OK(launch.finish());
    auto const found = output.download();
    ASSERT_LE(reference::relative_error(numbers_of(found, 0, found.size()), exact), 2 * usual + 1e-3)
        << "launch " << time << ", bf16 is off by " << usual;
    if (time == 0) before = found;
    ASSERT_EQ(found, before) << "another launch";
  }
}

}  // namespace tessera::decode
