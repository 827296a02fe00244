// SPDX-License-Identifier: Apache-2.0
// A decoder's layers as a loop whose iteration is one layer, its head, and how both are cut: arithmetic,
// without a GPU.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tessera/plan/exchange.hpp>
#include <tessera/plan/loop_plan.hpp>
#include <tessera/sync/wait.cuh>

#include "kernels/decode/cache.hpp"
#include "kernels/decode/model.hpp"
#include "kernels/few_tokens/product_cut.hpp"

namespace tessera::decode {

/// How the work is cut; what is 0 follows from the model.
struct Cut {
  int blocks = 0;  ///< of both launches, all resident; 0: one for each SM
  int splits = 0;  ///< of the cached tokens of a sequence and key head
  /// Of the early ring, at most. 0: follows from the number of sequences, and so does what is in flight.
  int slot_bytes = 0;
  int in_flight = 0;         ///< slots of the early ring on their way at once, at a tile's beginning; 0: all
  int in_flight_within = 0;  ///< and later on
  int late_slots = 0;
  int late_slot_bytes = 0;
  int late_warps = 1;  ///< that load what products read, in turns
  /// Results of stages go to the next as words that carry the iteration, or behind semaphores. Unset: as
  /// words where they can.
  std::optional<Exchange> exchange = std::nullopt;
};

/// Words are for 1 and 2 sequences.
constexpr bool words_can(int batch) { return batch <= 2; }
inline bool takes_words(Cut const& cut, int batch) {
  return words_can(batch) && cut.exchange.value_or(Exchange::words) == Exchange::words;
}

/// With what follows from the number of sequences.
Cut with_rings(Cut cut, int batch);

/// Stages of the loop's body.
enum Stage { k_qkv, k_attention, k_out, k_gate_up, k_down, k_stages };

/// How a step that generates is computed.
enum class StepBy {
  fastest,     ///< what is fastest for so many sequences, or predicted to be: predicted_steps()
  persistent,  ///< all layers in one launch, and the head in a second one
  launches,    ///< a launch for each operator
};

/// Among what products of a step by launches are chosen, for who measures or tests: those that have no kernel
/// of ours are the library's whatever is said.
enum class ProductsOf { all, library, ours };

/// Sequences from which on StepBy::fastest takes launches, for layers and for the head: by what both took on
/// GPUs (docs/decode.md).
constexpr int k_least_launched = 17, k_least_launched_head = 4;
/// Of fewer it takes launches for all where that is predicted to take this much of the time, at most.
constexpr double k_worth_launches = 0.99;
/// And from so many on where nothing can be predicted, on a GPU that has no profile.
constexpr int k_least_unpredicted = 4;
/// May a prediction decide how steps of so many sequences are computed?
constexpr bool decided_by_prediction(StepBy by, int batch) {
  return by == StepBy::fastest && batch < k_least_launched;
}

/// "fastest", "persistent", "launches"; nothing if it is none of them.
std::optional<StepBy> step_by(std::string const& name);
constexpr char const* k_step_names[] = {"fastest", "persistent", "launches"};
/// Are layers of so many sequences a launch for each operator, where nothing else decides it? And the head?
constexpr bool layers_by_launches(StepBy by, int batch) {
  return by == StepBy::launches || (by == StepBy::fastest && batch >= k_least_launched);
}
constexpr bool head_launched(StepBy by, int batch) {
  return by == StepBy::launches || (by == StepBy::fastest && batch >= k_least_launched_head);
}

/// Operators of a layer whose steps are launches, in their order. Attention is with what turns queries and
/// keys and stores new ones.
enum class LayerOperator { norm, qkv, attention, out, mlp_norm, gate_up, activation, down };
constexpr LayerOperator k_layer_operators[] = {
    LayerOperator::norm,     LayerOperator::qkv,     LayerOperator::attention,  LayerOperator::out,
    LayerOperator::mlp_norm, LayerOperator::gate_up, LayerOperator::activation, LayerOperator::down};

/// How many tiles each stage has.
struct Tiles {
  std::array<int, k_stages> of = {};
  int head = 0;
  int head_parts = 1;  ///< tiles of the product to one of these
};

/// Every product of a layer has a tile for each block, or as many times that as its rows ask for. The head
/// has one for each block, in parts that slots of so many bytes hold best.
Tiles tiles_of(Model const& model, int batch, int blocks, int splits, int slot_bytes);
/// Of a step that reads prompts: a tile of attention for each item and key head, and no head.
Tiles prompt_tiles(Model const& model, int rows, int items, int blocks);

/// One iteration: qkv reads x that down wrote an iteration before; attention reads qkv, and keys and values
/// of its own layer from before the launch; out and down add to the stream of residuals. The same for
/// sequences that generate and for rows of prompts. `exchange`: of all that stages write. Refuses as
/// plan_loop() does.
Expected<LoopPlan> plan_layers(Tiles const& tiles, MachineProfile const& machine, int blocks,
                               Exchange exchange = Exchange::semaphore);
/// One stage, one iteration.
Expected<LoopPlan> plan_head(Tiles const& tiles, MachineProfile const& machine, int blocks);

/// Products of the body, without matrices; that of attention has 0 features.
std::vector<few_tokens::Product> layer_products(Model const& model, int batch, Tiles const& tiles);
few_tokens::Product head_product(Model const& model, int batch, Tiles const& tiles);

/// Of the rings that products and attention share. `cut`: with_rings().
few_tokens::ProductOptions layer_options(Model const& model, Cut const& cut);
few_tokens::ProductOptions prompt_options(Model const& model, Cut const& cut);
few_tokens::ProductOptions head_options(Cut const& cut);

/// with_rings(), and how results travel where that was not said: as words where they fit, if need be with
/// smaller slots than usual.
Cut with_exchange(Model const& model, int batch, Cut cut, int blocks, int splits);

/// Bytes that a tile of each stage loads early, for so many cached tokens of each sequence.
std::vector<long long> tile_bytes(Model const& model, int batch, Tiles const& tiles, int cached);

/// The report of a stall with the layer that it was in, if the record tells it. `plan`: of plan_layers().
Diagnostics with_layer(Diagnostics stalled, LoopPlan const& plan, StallRecord const& record, int layers);

}  // namespace tessera::decode
