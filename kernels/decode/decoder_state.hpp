// SPDX-License-Identifier: Apache-2.0
// What a decoder has: its weights, memory and launches, and how far its sequences are.
#pragma once

#include <memory>
#include <optional>
#include <tessera/run/bindings.hpp>
#include <vector>

#include "kernels/decode/captured.hpp"
#include "kernels/decode/decoder.hpp"
#include "kernels/decode/decoder_buffers.hpp"
#include "kernels/decode/launched_head.hpp"
#include "kernels/decode/launched_layers.hpp"
#include "kernels/decode/launches.hpp"
#include "kernels/decode/prompt_pass.hpp"
#include "kernels/decode/prompt_reader.hpp"

namespace tessera::decode {

struct Decoder::State {
  Model model;
  Options options;
  Options asked;  ///< by the caller, with the way of steps that make() has chosen
  Tiles tiles;
  PackedWeights weights;
  void const* embedding = nullptr;
  int items = 0;
  Memory memory;
  Buffers at;
  CacheShape cache;
  few_tokens::ProductStages layers, head;
  std::shared_ptr<void const> attention;
  StepEnd end;
  Scratch together;  ///< its launches stall together: they share memory beside their own
  Launch layer_launch, head_launch;
  std::optional<LaunchedLayers> launched_layers;  ///< in place of the one
  std::optional<LaunchedHead> launched_head;      ///< and of the other
  std::optional<PromptReader> prompts;
  std::optional<PromptPass> pass;
  std::optional<Captured> one_step, many_steps;  ///< when they are asked for
  bool capturing = false;                        ///< one of them
  bool replayed = false;                         ///< such a launch is in a graph of the caller's
  bool layers_alone = false;   ///< the last thing that was enqueued is layers without their head
  cudaEvent_t last = nullptr;  ///< behind the last launch that no persistent one knows of; none yet: not made
  std::vector<Sequence> begun;  ///< empty: begin() comes first
  unsigned begun_at = 0;        ///< together.restarts() then: another number by now, and they are lost
  std::vector<int> read;        ///< positions of each sequence that have been read, when all steps are done

  ~State() {
    // Steps by launches may still run: as chains do, wait for them before memory is given back.
    if (last != nullptr || replayed) (void)wait_for_others();
    if (last != nullptr) cudaEventDestroy(last);
  }

  Expected<void> fill(cudaStream_t stream);
  Expected<void> describe_layers(int blocks);
  Expected<void> describe_head(int blocks);
  void describe_end();
  Expected<RoleOptions> role_options();
  Expected<void> plan_layer_launch(MachineProfile const& machine, int blocks);
  Expected<void> plan_head_launch(MachineProfile const& machine, int blocks);
  AttentionArguments attention_arguments(int slot_bytes) const;
  CachePages pages() const;
  Expected<void> make_prompts(MachineProfile const& machine, int blocks);
  Expected<void> make_pass(cudaStream_t stream);
  /// Is what is left of prompts read by a pass?
  bool takes_pass(std::vector<Positions> const& unread) const;
  /// `graph` of so many steps, unless there is one.
  Expected<void> capture(Decoder& decoder, int steps, std::optional<Captured>& graph);
  Expected<void> check_sequence(Sequence const& sequence) const;
  Expected<void> check_begun() const;
  Expected<void> check_steps(int steps) const;
  /// E0520 where a launch has given up, as finish() says it: nothing is enqueued then.
  Expected<void> settle(cudaStream_t stream);
  Expected<void> make_launched_layers(cudaStream_t stream, int sms, LaunchedSplits const& splits);
  Expected<void> make_launched_head(cudaStream_t stream);
  /// What passes and steps by launches share with the rest.
  PassSurroundings around() const { return {end, at.keys, at.values, at.turns, cache, pages()}; }
  Expected<void> enqueue_layers(cudaStream_t stream);
  Expected<void> enqueue_head(cudaStream_t stream, bool behind_layers);
  Expected<void> replay(cudaStream_t stream, int steps, bool& begins);
  /// finish() waits for what has been enqueued so far.
  Expected<void> mark(cudaStream_t stream);
  /// For what no persistent launch knows of.
  Expected<void> wait_for_others() const;
  Expected<void> finish();
  std::size_t arrived_bytes() const { return 4 * times(options.batch, model.kv_heads + 1); }
  int known(std::size_t sequence) const {
    return begun[sequence].cached + static_cast<int>(begun[sequence].tokens.size());
  }
};

}  // namespace tessera::decode
