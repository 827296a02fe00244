// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::convolution {
namespace {

std::size_t place(int row, int width, int column, int channels) {
  return (static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
          static_cast<std::size_t>(column)) *
         static_cast<std::size_t>(channels);
}

}  // namespace

float rounded(float value, ElementType type) {
  if (value == 0 || !std::isfinite(value)) return value;
  bool const half = type == ElementType::fp16;
  int const digits = half ? 10 : 7, least = half ? -14 : -126;
  // In double: the quotient is exact, and so is what it is rounded to.
  double const quantum = std::ldexp(1.0, std::max(std::ilogb(value), least) - digits);
  double const result = std::nearbyint(static_cast<double>(value) / quantum) * quantum;
  double const most = half ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
  if (std::abs(result) > most) return std::copysign(std::numeric_limits<float>::infinity(), value);
  return static_cast<float>(result);
}

std::vector<float> reference_layer(LayerChain const& chain, std::size_t layer,
                                   std::vector<float> const& input, LayerNumbers const& numbers,
                                   std::vector<float> const* residual) {
  auto const sizes = sizes_of(chain);
  auto const &from = sizes[layer], &to = sizes[layer + 1];
  auto const& l = chain.layers[layer];
  std::vector<float> result(static_cast<std::size_t>(activation_elements(chain, to)));
  std::vector<float> sums(static_cast<std::size_t>(to.channels));
  for (int image = 0; image < chain.images; ++image)
    for (int y = 0; y < to.height; ++y)
      for (int x = 0; x < to.width; ++x) {
        for (std::size_t c = 0; c < sums.size(); ++c) sums[c] = l.bias ? numbers.bias[c] : 0.0f;
        for (int r = 0; r < l.kernel; ++r)
          for (int s = 0; s < l.kernel; ++s) {
            int const row = y * l.stride - l.padding + r, column = x * l.stride - l.padding + s;
            if (row < 0 || row >= from.height || column < 0 || column >= from.width) continue;
            float const* const pixel =
                input.data() + place(image * from.height + row, from.width, column, from.channels);
            for (int c = 0; c < to.channels; ++c) {
              float const* const filter =
                  numbers.filter.data() + place(c * l.kernel + r, l.kernel, s, from.channels);
              float sum = 0;
              for (int k = 0; k < from.channels; ++k) sum += pixel[k] * filter[k];
              sums[static_cast<std::size_t>(c)] += sum;
            }
          }
        auto const at = place(image * to.height + y, to.width, x, to.channels);
        for (std::size_t c = 0; c < sums.size(); ++c) {
          float value = sums[c] + (residual != nullptr ? (*residual)[at + c] : 0.0f);
          if (l.relu && value < 0) value = 0;
          result[at + c] = rounded(value, chain.type);
        }
      }
  return result;
}

std::vector<std::vector<float>> reference_chain(LayerChain const& chain, std::vector<float> input,
                                                std::vector<LayerNumbers> const& numbers) {
  std::vector<std::vector<float>> all = {std::move(input)};
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    int const residual = chain.layers[l].residual;
    all.push_back(reference_layer(chain, l, all.back(), numbers[l],
                                  residual < 0 ? nullptr : &all[static_cast<std::size_t>(residual)]));
  }
  return all;
}

}  // namespace tessera::convolution
