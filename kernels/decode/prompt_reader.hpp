// SPDX-License-Identifier: Apache-2.0
// Steps that read prompts, many tokens at once: all layers in one launch, without the head.
#pragma once

#include <tessera/measure/machine_profile.hpp>

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/launches.hpp"
#include "kernels/decode/layer_stages.hpp"

namespace tessera::decode {

/// Memory of these steps alone.
struct PromptBuffers {
  PromptItem* items = nullptr;
  float* parts = nullptr;
  unsigned* arrived = nullptr;
};

/// What they share with steps that generate.
struct PromptSurroundings {
  LayerBuffers buffers;  ///< of as many rows
  StepEnd end;           ///< whose `stream` and `x` are those of the buffers
  void* keys = nullptr;
  void* values = nullptr;
  void const* head_gains = nullptr;
  Turn const* turns = nullptr;
  CacheShape cache;
  CachePages pages;
  StallGroup* stalls_with = nullptr;  ///< ChainOptions::stalls_with
};

/// How many rows such a step has for a decoder of these options; below 2: there are no such steps.
int prompt_rows_of(Options const& options);
/// Takes places, or adds up what they take.
PromptBuffers prompt_places(Pieces& pieces, Model const& model, int items);

class PromptReader {
 public:
  /// `items`: prompt_items(), as of `own`. Refuses as plan_loop() and role_chain() do.
  static Expected<PromptReader> make(Model const& model, PackedWeights const& weights, Options const& options,
                                     PromptBuffers const& own, PromptSurroundings const& around,
                                     MachineProfile const& machine, int blocks, int items);

  /// Enqueues steps that read the positions `unread` of each sequence; the next step that generates reads the
  /// last token of each prompt that has not been read by then.
  Expected<void> read(cudaStream_t stream, std::vector<Positions> const& unread) const;
  /// Enqueues that nothing is under way, for new sequences behind a stall.
  Expected<void> reset(cudaStream_t stream) const;
  Launch const& launch() const { return launch_; }

 private:
  Launch launch_;
  few_tokens::ProductStages products_;
  std::shared_ptr<void const> attention_;
  PromptBuffers own_;
  StepEnd end_;
  int rows_ = 0, items_ = 0, layers_ = 0, kv_heads_ = 0, group_ = 1, window_ = 0;
  int least_ = 1;  ///< positions of a part: a slot's
};

}  // namespace tessera::decode
