// SPDX-License-Identifier: Apache-2.0
// How a chain of convolutions is cut into tiles and a block's shared memory into rings, and its plan:
// arithmetic, without a GPU.
#pragma once

#include <tessera/plan/loop_plan.hpp>
#include <tessera/plan/role_rings.hpp>
#include <vector>

#include "kernels/convolution/problem.hpp"
#include "kernels/convolution/stage.hpp"

namespace tessera::convolution {

/// How many blocks can be resident at once, one on each SM.
struct Places {
  int sms = 132;
  /// Clusters of 2, 4 and 8 blocks: fewer than SMs have room for, because a cluster lies within a GPC.
  int clusters[3] = {66, 30, 14};

  int blocks(int splits) const;
};

struct ConvOptions {
  /// Blocks that share a tile's depth, 1, 2, 4 or 8, in every layer; 0: what is cheapest.
  int splits = 0;
  std::vector<Cut> cuts = {};  ///< one for each layer; empty: the cheapest
  /// A launch starts before the launch of this chain before it in the stream is complete, and loads filters:
  /// nothing may write them meanwhile.
  bool starts_early = false;
  double deadline_seconds = 2;
  bool keep_times = false;  ///< ConvChain::times()
  /// Each layer is a launch of its own, without waits from tile to tile (layer_kernel.cuh). Each but the
  /// first loads its filters while the one before still runs. `cuts` are of layer_cuts() then, `splits` and
  /// `deadline_seconds` are not used. False: persistent launches of several layers (cut_launches()).
  bool by_layer = true;
};

/// A chain that is cut.
struct CutChain {
  std::vector<ConvStage> stages;  ///< without memory
  RoleRings rings;
  int workers = 0;
  int splits = 1;
  double price = 0;  ///< cycles of an SM, about
};

/// Refuses (E0567) what check_chain() refuses, splits that a layer's channels do not have, cuts that fit no
/// layer or for whose slots an SM has no room.
Expected<CutChain> cut_chain(LayerChain const& chain, Places const& places, ConvOptions const& options = {});

/// Layers of a chain that are a launch of their own.
struct ChainPart {
  std::size_t first = 0;  ///< of the whole chain's layers
  LayerChain chain;       ///< its residuals count from its own input on
  CutChain cut;
};

/// The chain as one launch or several, one behind the other: each has splits of its own, and slots of its own
/// size. Launches may part where the size of activations changes and no residual reaches over; they do where
/// the sum of prices is less by more than a launch, and between other layers where nothing else fits. One
/// launch if `options` has cuts or splits. Refuses as cut_chain().
Expected<std::vector<ChainPart>> cut_launches(LayerChain const& chain, Places const& places,
                                              ConvOptions const& options = {});

/// What a tuner may try of one persistent launch, the cheapest first by price: the best boxes for each way to
/// divide warps and depth. Which is fastest differs from chain to chain: measure.
std::vector<ConvOptions> chain_options(LayerChain const& chain, Places const& places, std::size_t most);

/// All ways in which a layer may be cut for so many splits: what the planner and a tuner choose from.
std::vector<Cut> cuts_of(ImageSize const& input, Layer const& layer, int images, int splits);
/// A layer as a stage, cut so; `before`: the stage that writes its input, or null.
ConvStage stage_of(ImageSize const& input, Layer const& layer, int images, Cut const& cut,
                   ConvStage const* before);
/// About how many cycles a layer takes, cut so, on so many blocks.
double price_of(ConvStage const& stage, int workers);

/// The chain as a loop of one iteration for each launch: a stage for each layer, tiles that wait for the
/// tiles that theirs read. Stages are "convolution_<n>", from `first` on. Refuses as plan_loop() does.
Expected<LoopPlan> plan_chain(CutChain const& cut, MachineProfile const& machine, std::size_t first = 0);

/// "64 channels x 14x4x1 pixels, 4 splits".
std::string to_string(Cut const& cut);

}  // namespace tessera::convolution
