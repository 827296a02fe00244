// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions whose memory comes with each call: each layer a launch, as in ConvChain by layer,
// and nothing is kept from call to call, so that calls may be in several streams and graphs at once.
#pragma once

#include "kernels/convolution/conv_chain.hpp"

namespace tessera::convolution {

/// What a call is lent for the results of all layers but the last. Precondition: check_chain().
std::size_t scratch_bytes(LayerChain const& chain);

class ConvLaunches {
 public:
  /// Cuts the layers for a GPU of so many SMs; asks none. Refuses (E0567) chains that it is not for.
  static Expected<ConvLaunches> make(LayerChain const& chain, int sms);

  /// Enqueues the chain; may be captured. Outputs that are null lie in `scratch`, 256-byte aligned, which may
  /// be given back behind the call in the order of the stream. The first launch begins when all before it in
  /// the stream is complete; each later one loads its filters while the one before runs. E0567, E0511.
  Expected<void> run(ConvBuffers const& buffers, void* scratch, cudaStream_t stream) const;

 private:
  LayerChain chain_;
  std::vector<ChainPart> parts_;
  std::vector<std::size_t> places_;  ///< of each layer's result in the scratch memory
};

}  // namespace tessera::convolution
