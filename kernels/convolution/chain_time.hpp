// SPDX-License-Identifier: Apache-2.0
// How long a chain of convolutions takes, without a GPU. price_of() (chain_plan.hpp) orders the cuts of a
// layer; this says microseconds, of chains that were cut.
#pragma once

#include <vector>

#include "kernels/convolution/chain_plan.hpp"

namespace tessera::convolution {

/// Of an SM of an H200, cycles at 1.755 GHz. Fitted to all chains of ResNet-38 and to those of ResNet-50 with
/// 1 and 16 images in results/h200/networks.json, and to the planned chains of same_size in
/// results/h200/convolution.json. VGG-19's, and ResNet-50's with 4 images, were not looked at.
struct ChainCosts {
  double launch = 5500;           ///< a launch begins -> its first tile multiplies
  double next_launch = 500;       ///< a launch that starts early behind another one
  double boundary = 3500;         ///< stored -> seen, and the first pixels there, from layer to layer
  double tile = 1500;             ///< of each of a block's tiles
  double tap = 387;               ///< at least, of a tap of a chunk by warps
  double wide_tap = 313;          ///< by warpgroups
  double chunk = 570;             ///< of a chunk of channels: a turn of the ring of pixels
  double warps = 1.42;            ///< times what matrix instructions and their operands take
  double warpgroups = 0.91;       ///< the same; of instructions at their peak
  double bytes_per_cycle = 31.2;  ///< from the L2, of each SM while all load
  double sum = 4.1;               ///< 128 bytes of sums that meet in shared memory, each of a tile's
  double store = 53.5;            ///< 128 results
  double residual = 48;           ///< 128 results that something is added to
  double exchange = 335;          ///< of blocks that share a tile's depth
  double memory = 640;            ///< a million bytes of activations beyond 20 million, of a layer
};

/// Cycles of a layer; `adds`: a residual.
double cycles_of(ConvStage const& stage, bool adds, int workers, ChainCosts const& costs = {});

/// Microseconds of the launches that cut_launches() makes of a chain.
double chain_us(std::vector<ChainPart> const& launches, ChainCosts const& costs = {});

/// Cuts by chain_us() in place of price_of(): of each number of splits the fastest cut of each layer, if they
/// fit together, and those of chain_options(); the fastest of all that. One persistent launch. Refuses as
/// cut_chain().
Expected<ConvOptions> fastest_options(LayerChain const& chain, Places const& places,
                                      ChainCosts const& costs = {});

}  // namespace tessera::convolution
