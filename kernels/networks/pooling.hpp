// SPDX-License-Identifier: Apache-2.0
// Pooling, and images whose channels are padded with zeros, on the GPU. Activations are
// [image][row][column][channel], of multiples of 8 channels but for images, and 16-byte aligned.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/networks/network.hpp"

namespace tessera::networks {

/// Of images of `from`. A NaN comes out as a NaN.
cudaError_t max_pool(void const* input, void* output, int images, ImageSize const& from,
                     NetworkLayer const& layer, ElementType type, cudaStream_t stream);
/// Of all pixels of each image, fp32 sums.
cudaError_t average_pool(void const* input, void* output, int images, ImageSize const& from, ElementType type,
                         cudaStream_t stream);
/// From `image.channels` to padded(image.channels).
cudaError_t pad_channels(void const* input, void* output, int images, ImageSize const& image,
                         cudaStream_t stream);

}  // namespace tessera::networks
