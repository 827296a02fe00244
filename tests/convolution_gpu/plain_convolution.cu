// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "convolution_gpu/plain_convolution.hpp"

namespace tessera::convolution {
namespace {

template <class Element>
struct Arrays {
  Element const *input, *filter, *bias, *residual;
  float* sums;
};

/// A block for each pixel, a thread for each n-th channel.
template <class Element>
__global__ void convolve(ImageSize from, ImageSize to, Layer layer, Arrays<Element> a) {
  int const pixel = static_cast<int>(blockIdx.x);
  int const image = pixel / (to.height * to.width), y = pixel / to.width % to.height, x = pixel % to.width;
  for (int channel = static_cast<int>(threadIdx.x); channel < to.channels;
       channel += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int r = 0; r < layer.kernel; ++r)
      for (int s = 0; s < layer.kernel; ++s) {
        int const row = y * layer.stride - layer.padding + r, column = x * layer.stride - layer.padding + s;
        if (row < 0 || row >= from.height || column < 0 || column >= from.width) continue;
        auto const* const input =
            a.input +
            (static_cast<long long>(image * from.height + row) * from.width + column) * from.channels;
        auto const* const filter =
            a.filter +
            (static_cast<long long>(channel * layer.kernel + r) * layer.kernel + s) * from.channels;
        for (int c = 0; c < from.channels; ++c)
          sum += static_cast<float>(input[c]) * static_cast<float>(filter[c]);
      }
    long long const at = static_cast<long long>(pixel) * to.channels + channel;
    if (a.bias != nullptr) sum += static_cast<float>(a.bias[channel]);
    if (a.residual != nullptr) sum += static_cast<float>(a.residual[at]);
    a.sums[at] = layer.relu && sum < 0 ? 0 : sum;
  }
}

template <class Element>
cudaError_t launch(LayerChain const& chain, std::size_t layer, Arrays<Element> const& arrays,
                   cudaStream_t stream) {
  auto const sizes = sizes_of(chain);
  auto const& to = sizes[layer + 1];
  convolve<<<static_cast<unsigned>(chain.images * to.height * to.width), 64, 0, stream>>>(
      sizes[layer], to, chain.layers[layer], arrays);
  return cudaGetLastError();
}

}  // namespace

cudaError_t plain_convolution(LayerChain const& chain, std::size_t layer, void const* input,
                              void const* filter, void const* bias, void const* residual, float* sums,
                              cudaStream_t stream) {
  auto const of = [&]<class Element>(Element const*) {
    auto const as = [](void const* at) { return static_cast<Element const*>(at); };
    return launch<Element>(chain, layer, {as(input), as(filter), as(bias), as(residual), sums}, stream);
  };
  return chain.type == ElementType::bf16 ? of(static_cast<__nv_bfloat16 const*>(nullptr))
                                         : of(static_cast<__half const*>(nullptr));
}

}  // namespace tessera::convolution
