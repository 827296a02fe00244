// SPDX-License-Identifier: Apache-2.0
// Layers as launches of their own: compiled kernels behind plain values.
#pragma once

#include <cuda.h>

#include "kernels/convolution/conv_loop.hpp"
#include "kernels/convolution/layer_memory.hpp"

namespace tessera::convolution {

/// `stage` with what it reads and writes; maps as conv_chain.cpp makes them. `early`: filters are loaded
/// while the launch before it in the stream still runs.
Expected<ConvLoop> layer_of_fp16(ConvStage const& stage, LayerMemory const& memory,
                                 CUtensorMap const& filters, CUtensorMap const& pixels, bool early);
Expected<ConvLoop> layer_of_bf16(ConvStage const& stage, LayerMemory const& memory,
                                 CUtensorMap const& filters, CUtensorMap const& pixels, bool early);

}  // namespace tessera::convolution
