// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/networks/conv_network.hpp"
#include "kernels/networks/reference.hpp"

namespace tessera::networks {
namespace {

Expected<std::vector<float>> values_of(ConvNetwork const& network, int activation, int image,
                                       ElementType type) {
  auto const bits = network.activation(activation, image);
  if (!bits) return tl::make_unexpected(bits.error());
  std::vector<float> result;
  result.reserve(bits->size());
  for (auto const one : *bits) result.push_back(value_of(one, type));
  return result;
}

/// |got - wanted| / |wanted|.
double difference(std::vector<float> const& got, std::vector<float> const& wanted) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const a = static_cast<double>(got[i]), b = static_cast<double>(wanted[i]);
    off += (a - b) * (a - b), all += b * b;
  }
  return off == 0 ? 0 : std::sqrt(off / all);
}

}  // namespace

double allowed_error(ElementType type) { return type == ElementType::fp16 ? 3.5e-4 : 2.8e-3; }

Expected<std::vector<LayerError>> layer_errors(ConvNetwork const& on_gpu, Network const& network,
                                               NetworkWeights const& weights, int images) {
  std::vector<LayerError> result;
  for (std::size_t n = 0; n < network.layers.size(); ++n) {
    auto const& layer = network.layers[n];
    LayerError worst{n, 0};
    for (int image = 0; image < images; image += std::max(images - 1, 1)) {
      auto const input = values_of(on_gpu, layer.input, image, network.type);
      if (!input) return tl::make_unexpected(input.error());
      auto const got = values_of(on_gpu, static_cast<int>(n) + 1, image, network.type);
      if (!got) return tl::make_unexpected(got.error());
      Expected<std::vector<float>> residual = std::vector<float>();
      bool const adds = layer.layer.residual >= 0;
      if (adds) residual = values_of(on_gpu, layer.layer.residual, image, network.type);
      if (!residual) return tl::make_unexpected(residual.error());
      auto const wanted =
          reference_layer(network, n, 1, *input, weights.layers[n], adds ? &*residual : nullptr);
      // A NaN stays: nothing is above it.
      if (double const error = difference(*got, wanted); std::isnan(error) || error > worst.error)
        worst.error = error;
    }
    result.push_back(worst);
  }
  return result;
}

}  // namespace tessera::networks
