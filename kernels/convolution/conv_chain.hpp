// SPDX-License-Identifier: Apache-2.0
// Convolutions one behind the other: each a launch of its own, which loads its filters while the one before
// runs (layer_kernel.cuh), or persistent launches of several: operations with roles (tessera/run/roles.cuh),
// whose tiles wait for the tiles that their halo lies in.
//
//   auto chain = ConvChain::make(same_size(1, 14, 256, 2), buffers);
//   chain->run(stream);
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/convolution/chain_plan.hpp"
#include "kernels/few_tokens/tile_times.hpp"

namespace tessera::convolution {

/// Of a layer, in device memory, 16-byte aligned, of the chain's type.
struct LayerBuffers {
  void const* filter = nullptr;  ///< [channels out][row][column][channels in]
  void const* bias = nullptr;    ///< [channels out], where the layer has one
  void* output = nullptr;  ///< [image][row][column][channel]; null: memory of the chain, not of the last
  /// As the output, where the layer adds one that is given. Complete when a run begins.
  void const* residual = nullptr;
};

struct ConvBuffers {
  void const* input = nullptr;  ///< [image][row][column][channel]
  std::vector<LayerBuffers> layers;
};

class ConvChain {
 public:
  /// Refuses (E0567) chains that it is not for, and as plan_loop() and role_chain() do. E0511 where CUDA
  /// fails.
  static Expected<ConvChain> make(LayerChain const& chain, ConvBuffers const& buffers,
                                  ConvOptions const& options = {});
  /// Enqueues the chain once; may be captured. Runs of one chain follow each other, on whatever streams;
  /// graphs of a chain of several launches are yours to order, and so is a chain of one layer with
  /// ConvOptions::by_layer.
  /// Refuses as Chain::launch() of the library does, also (E0520) where a launch before has stalled.
  Expected<void> run(cudaStream_t stream);
  /// Waits for all launches; with ConvOptions::by_layer for all work of the device. E0520 if a wait met its
  /// deadline: it names the layer and the tile. E0511.
  Expected<void> finish();
  /// Has a wait met its deadline since then? One load of host memory; then results are not to be used.
  bool stalled() const;
  /// How it was cut: its launches, one or several.
  std::vector<ChainPart> const& launches() const;
  /// Of a layer's tiles in the last launch, by the warps that compute; empty without ConvOptions::keep_times.
  /// Waits for the launch; empty, too, where CUDA fails.
  std::vector<few_tokens::TileTimes> times(std::size_t layer) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::convolution
