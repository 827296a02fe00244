// SPDX-License-Identifier: Apache-2.0
// The example of docs/convolutions.md, as it stands there.
#include "kernels/networks/conv_network.hpp"

using namespace tessera::networks;

/// ResNet-50 with the weights in a folder, for so many images at a time.
tessera::Expected<ConvNetwork> resnet(std::string const& folder, int images, cudaStream_t stream) {
  auto const files = tessera::WeightFiles::open(folder);
  if (!files) return tl::make_unexpected(files.error());
  auto const weights = read_weights(resnet_50(), *files);
  if (!weights) return tl::make_unexpected(weights.error());
  NetworkOptions options;
  options.tune = true;  // measures who computes each layer fastest: seconds
  return ConvNetwork::make(resnet_50(), *weights, images, options, stream);
}
