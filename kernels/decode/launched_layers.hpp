// SPDX-License-Identifier: Apache-2.0
// The layers of a step that generates as a launch for each operator: for many sequences, and for few where
// that is faster. Nothing in it waits for more than the launches before it, so there is nothing that could be
// waited for in vain.
#pragma once

#include <vector>

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/launched_attention.hpp"
#include "kernels/decode/operator_launches.hpp"
#include "kernels/decode/pass_kernels.hpp"
#include "kernels/decode/ways_in_layers.hpp"

namespace tessera::decode {

/// Memory of these steps, a row for each sequence.
struct LaunchedBuffers {
  RowBuffers rows;              ///< `stream` is StepEnd's
  float* parts = nullptr;       ///< LaunchedAttention's
  unsigned* arrived = nullptr;  ///< LaunchedAttention's
};

class LaunchedLayers {
 public:
  /// `sms`: of the GPU. `splits`: of attention; which of both, work says, or layers where products are timed;
  /// LaunchedBuffers::parts has room for `apart`. E0533: the library has no such product.
  static Expected<LaunchedLayers> make(Model const& model, PackedWeights const& weights,
                                       Options const& options, LaunchedBuffers const& own,
                                       PassSurroundings const& around, int sms, LaunchedSplits const& splits,
                                       cudaStream_t stream);

  /// Enqueues all layers over the token that each sequence reads next.
  Expected<void> all(cudaStream_t stream) const;
  /// The same of one operator alone, of all layers, for who measures: what it comes to says nothing.
  Expected<void> only(cudaStream_t stream, LayerOperator which) const;
  /// What they leave to the head.
  LayersEnd end() const { return operators_.end(batch_); }

 private:
  /// Parts of both kinds, or of one where no clusters fit; those with less work first. No more of those that
  /// meet in device memory than there is room for: splits.apart.
  std::vector<AttentionParts> parts_by_work(LaunchedSplits const& splits, int cached) const;
  /// Of each product the way with which layers are fastest, and of attention the parts.
  Expected<void> take_fastest(LayersTimed const& timed, cudaStream_t stream);
  LaunchedAttention attention_sizes() const;
  Expected<void> attend(cudaStream_t stream, int layer) const;

  Model model_;
  LaunchedBuffers own_;
  PassSurroundings around_;
  OperatorLaunches operators_;
  int batch_ = 0, sms_ = 0;
  AttentionParts parts_;
};

}  // namespace tessera::decode
