// SPDX-License-Identifier: Apache-2.0
// What tests of attention alone share: inputs with no numbers where nobody may read, and two launches held to
// plain arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

/// Where elements of a cache stand: of sequences, or of pages that are dealt out at random, some to nobody.
struct Places {
  CacheShape sequences;
  int page = 0;  ///< positions; 0: no pages
  int pages = 0;
  std::vector<int> table;

  Places(CacheShape const& of, int page_positions) : sequences(of), page(page_positions) {
    if (page == 0) return;
    constexpr int spare = 3;
    pages = of.batch * each() + spare;
    for (int i = 0; i < pages; ++i) table.push_back(i);
    std::shuffle(table.begin(), table.end(), std::mt19937(static_cast<unsigned>(pages)));
    table.resize(table.size() - spare);
  }
  int each() const { return pages_of(sequences.capacity, page); }
  CacheShape shape() const {
    return page == 0 ? sequences
                     : CacheShape{sequences.layers, pages, sequences.kv_heads, page, sequences.head_size};
  }
  std::size_t at(int layer, int sequence, int head, int position, int dimension) const {
    if (page == 0) return sequences.at(layer, sequence, head, position, dimension);
    int const number = table[static_cast<std::size_t>(sequence * each() + position / page)];
    return shape().at(layer, number, head, position % page, dimension);
  }
};

/// The same on the GPU.
class PagesOnDevice {
 public:
  explicit PagesOnDevice(Places const& from)
      : table_(std::max<std::size_t>(from.table.size(), 1)),
        wrong_(static_cast<std::size_t>(from.sequences.batch), 0) {
    if (from.page == 0) return;
    table_.upload(from.table);
    pages = {table_.get(), wrong_.get(), from.each(), from.page, from.pages};
  }
  CachePages pages;
  /// Of each sequence.
  std::vector<int> wrong() const { return wrong_.download(); }

 private:
  gpu::DeviceBuffer<int> table_, wrong_;
};

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
void fill_cache(Places const& places, First const& first, Cached const& cached, RandomBits& random,
                bool zero_keys, Bits& keys, Bits& values) {
  auto const& cache = places.sequences;
  keys.assign(places.shape().elements(), k_poison);
  values = keys;
  for (int l = 0; l < cache.layers; ++l)
    for (int b = 0; b < cache.batch; ++b)
      for (int h = 0; h < cache.kv_heads; ++h)
        for (int p = first(b); p < cached(b); ++p)
          for (int d = 0; d < cache.head_size; ++d) {
            keys[places.at(l, b, h, p, d)] = zero_keys ? 0 : random.number();
            values[places.at(l, b, h, p, d)] = random.number();
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
