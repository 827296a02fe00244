// SPDX-License-Identifier: Apache-2.0
// Layers with the memory that they read and write: what chains check of buffers, how the copy engine is told
// where they are, and a layer as a launch.
#pragma once

#include <cuda.h>

#include "kernels/convolution/conv_chain.hpp"
#include "kernels/convolution/conv_loop.hpp"

namespace tessera::convolution {

/// E0567 where an address is missing, too many or not aligned.
Expected<void> check_buffers(LayerChain const& chain, ConvBuffers const& buffers);

/// Chunks of channels of filters: [pixel of the filter][channel out], a line each. False: the driver refuses.
bool filter_map(CUtensorMap* map, ElementType type, void const* filter, ConvStage const& stage);
/// Chunks of channels of the pixels around a box.
bool input_map(CUtensorMap* map, ElementType type, void const* input, ConvStage const& stage);
/// E0567 for such a refusal.
Diagnostics not_described(std::size_t layer);

/// One layer as a launch. `activations`: the whole chain's input, and what each layer writes. `early`: it
/// loads its filters while what is before it in the stream still runs.
Expected<ConvLoop> layer_launch(ChainPart const& part, LayerChain const& chain,
                                std::vector<void const*> const& activations, LayerBuffers const& buffers,
                                few_tokens::TileTimes* times, bool early);

}  // namespace tessera::convolution
