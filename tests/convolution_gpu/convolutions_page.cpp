// SPDX-License-Identifier: Apache-2.0
// The code of docs/convolutions.md.
#include "kernels/convolution/conv_chain.hpp"

using namespace tessera::convolution;

/// y = relu(w2 * relu(w1 * x + b1) + b2 + x), a block of a residual network, on the caller's stream.
tessera::Expected<ConvChain> residual_block(int images, void const* x, void const* const (&w)[2],
                                            void const* const (&b)[2], void* y) {
  LayerChain chain = same_size(images, 14, 256, 2);  // 14x14 pixels, 256 channels, 3x3 filters, fp16
  chain.layers[1].residual = 0;                      // the chain's input
  ConvBuffers buffers{x, {{w[0], b[0], nullptr}, {w[1], b[1], y}}};  // between them memory of the chain's
  return ConvChain::make(chain, buffers);
}
