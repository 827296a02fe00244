// SPDX-License-Identifier: Apache-2.0
// How a layer is cut where it is a launch of its own (layer_kernel.cuh): arithmetic, without a GPU.
#pragma once

#include "kernels/convolution/chain_plan.hpp"
#include "kernels/convolution/layer_memory.hpp"

namespace tessera::convolution {

constexpr int k_half_of_sm = 113 * 1024;  ///< shared memory of sm_90, of each of two blocks

/// What a block of it holds; no slots: it does not fit. If possible half of an SM, so that the next launch's
/// blocks find room beside it and load their filters.
LayerMemory memory_of(ConvStage const& stage);

/// Ways to cut a layer, the cheapest first by layer_cycles(), no more than `most`: of each way to divide
/// warps and depth the two cheapest boxes, and others where these are fewer. Which is fastest differs from
/// layer to layer: measure.
std::vector<Cut> layer_cuts(ImageSize const& input, Layer const& layer, int images, int sms,
                            std::size_t most);

/// Each layer as a part of its own, cut as `options.cuts` says or by price. Refuses (E0567) what
/// check_chain() refuses, and cuts that no layer has.
Expected<std::vector<ChainPart>> cut_layers(LayerChain const& chain, int sms,
                                            ConvOptions const& options = {});

}  // namespace tessera::convolution
