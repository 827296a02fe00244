// SPDX-License-Identifier: Apache-2.0
// Random arrays and their sums, by a way of adding that nothing here shares.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace tessera::reduction {

template <class T>
std::vector<T> random_array(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> x(count);
  for (auto& one : x) {
    auto const bits = random();
    if constexpr (std::is_same_v<T, int>)
      one = static_cast<int>(bits);
    else
      one = static_cast<T>(bits) / T(2147483648.0) - T(1);
  }
  return x;
}

/// Sum and sum of magnitudes, compensated (Neumaier), in long double.
template <class T>
struct Reference {
  long double sum = 0, size = 0;
  Reference(T const* x, std::size_t count) {
    long double lost = 0;
    for (std::size_t i = 0; i < count; ++i) {
      long double const value = x[i], next = sum + value;
      lost += std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
      sum = next;
      size += std::abs(value);
    }
    sum += lost;
  }
};
template <>
struct Reference<int> {
  std::uint32_t sum = 0;
  Reference(int const* x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<std::uint32_t>(x[i]);
  }
};

/// Within what a tree of additions may lose: a few roundings of the magnitudes' sum.
inline bool right(float got, Reference<float> const& reference) {
  return std::abs(got - reference.sum) <= 5e-7L * reference.size + 1e-30L;
}
inline bool right(double got, Reference<double> const& reference) {
  return std::abs(got - reference.sum) <= 1e-15L * reference.size + 1e-300L;
}
inline bool right(int got, Reference<int> const& reference) {
  return static_cast<std::uint32_t>(got) == reference.sum;
}

}  // namespace tessera::reduction
