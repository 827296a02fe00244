// SPDX-License-Identifier: Apache-2.0
// A decoder that generates tokens: all layers in one persistent launch, the head in a second one, or, of many
// sequences, a launch for each operator; in graphs that serve every step. docs/decode.md goes through it.
// Needs a GPU (sm_90).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <tessera/diagnostic.hpp>
#include <tessera/plan/deal.hpp>
#include <vector>

#include "kernels/decode/cache.hpp"
#include "kernels/decode/layer_plan.hpp"
#include "kernels/decode/model.hpp"
#include "kernels/decode/sampling.hpp"

namespace tessera::decode {

/// Matrices of bf16 in device memory, row-major, [out][in] as Hugging Face stores them; norms are vectors.
/// They are copied: rows are put where the kernels read them, and the gains of a norm multiplied into the
/// columns of the products behind it.
struct LayerWeights {
  void const* attention_norm = nullptr;
  void const *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  void const* mlp_norm = nullptr;
  void const *gate = nullptr, *up = nullptr, *down = nullptr;  ///< no gate where the MLP has none
  /// Vectors; null where the model has none.
  void const *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
  void const *q_norm = nullptr, *k_norm = nullptr;  ///< [head_size], the same for all heads
  void const *attention_norm_bias = nullptr, *mlp_norm_bias = nullptr;  ///< of LayerNorm
  void const *up_bias = nullptr, *down_bias = nullptr;
};
struct Weights {
  std::vector<LayerWeights> layers;
  void const* embedding = nullptr;  ///< [vocabulary][hidden]; the decoder reads its rows, so it has to stay
  void const* norm = nullptr;
  void const* head = nullptr;  ///< null in a tied model: the embedding
  void const* norm_bias = nullptr;
  void const* positions = nullptr;  ///< [learned_positions][hidden]
};

/// A cache in pages that the caller deals out: cache.hpp says how they lie. The table is read by steps, so it
/// may grow while they run: what a step reads and writes has to stand in it by then. Several sequences, and
/// decoders of the same model, may have a page in common, as long as none of them writes there: new tokens
/// are written to their own positions alone.
struct PagedCache {
  int positions = 0;  ///< of a page: a multiple of 16; 0: a cache without pages
  int pages = 0;      ///< that there are
  int const* table =
      nullptr;  ///< [sequence][pages_of(capacity, positions)] numbers of pages, in device memory
  void *keys = nullptr, *values = nullptr;  ///< the caller's, 16-byte aligned; null: the decoder's own
};

struct Options {
  int batch = 1;                   ///< sequences at once
  int capacity = 2048;             ///< tokens of a sequence, prompt and generated ones together
  StepBy steps = StepBy::fastest;  ///< docs/decode.md, "Many sequences"
  Cut cut;                         ///< of persistent launches
  int usual_cached = 1024;         ///< by which work is evened out, and a way of steps chosen
  bool keep_logits = false;        ///< for Decoder::logits()
  bool keep_times = false;         ///< for Decoder::tile_times(); of persistent launches
  bool head_starts_early = false;  ///< loads the head's weights while the last layers are still computed
  double deadline_seconds = 2;     ///< of each wait between tiles
  std::size_t most_bytes = 0;      ///< of device memory; 0: what there is
  /// Tokens of prompts that a step of prefill() reads, of all sequences together: 2 to 64 by the kernels of
  /// steps, more, up to k_most_pass_rows, by a pass of matrix products. 1: token by token. 0: few by steps
  /// and many by passes, as many as are of use.
  int prompt_rows = 0;
  /// make() times the algorithms of cuBLASLt for full passes of 1024 rows and more, and these and our
  /// products of few rows for steps by launches, and takes the fastest; of steps those with which whole
  /// layers are fastest: one choice for all decoders of a process with the same sizes, cached tokens and
  /// room. Where the cache has pages, which are the caller's, layers are not timed, and what another decoder
  /// has found is taken. Off: it takes what the library guesses first, which is the same in every process:
  /// sums, and with them near ties, do not depend on what was faster. Nothing is predicted then
  /// (StepBy::fastest): steps of up to 16 sequences are persistent.
  bool time_products = true;
  ProductsOf products_of = ProductsOf::all;  ///< of steps by launches, where products are timed
  std::vector<LayerOperator> by_library;     ///< for tests: products of these that are the library's
  PagedCache paged;
  Sampling sampling;
  /// A sequence ends with the first of these that it generates. Later steps read that one again, and change
  /// nothing.
  std::vector<int> stop_tokens;
  /// For tests of stalls: a tile that no step computes, of a Stage, in the layer that is its iteration.
  std::optional<MissedTile> missed_tile = {};
};

/// Are these options' layers, where no prediction decides, a launch for each operator? Not, unless it is
/// said, where something is asked for that persistent launches alone have: a cut, times of tiles, a head that
/// starts early, or prompts by steps.
bool by_launches(Options const& options);
/// And the head? For fewer sequences than layers.
bool head_by_launches(Options const& options);

/// What a sequence begins with. `tokens` are at positions from `cached` on; what is before them stands in the
/// cache (Decoder::keys()).
struct Sequence {
  std::vector<int> tokens;
  int cached = 0;
};

enum class Part { all, layers, head };

/// Steps of a graph that decode() replays, of as many steps and more.
constexpr int k_steps_together = 8;

class Decoder {
 public:
  /// Device memory that make() takes at most, in bytes, beside `weights` and times of tiles.
  static std::size_t bytes_of(Model const& model, Options const& options);
  /// Refuses (E0566) models, sequences and memory that it is not for, and as plan_loop() and role_chain() do.
  /// `stream`: weights are copied there, and may be given back when this returns, but for the embedding.
  static Expected<Decoder> make(Model const& model, Weights const& weights, Options const& options,
                                cudaStream_t stream);

  /// Another one with the same weights, and memory of its own for the rest.
  Expected<Decoder> another(Options const& options, cudaStream_t stream) const;

  /// Forgets what was, and takes the first token of each sequence in. Waits for the stream.
  Expected<void> begin(cudaStream_t stream, std::vector<Sequence> const& sequences);
  /// Enqueues what reads all that is left of prompts, many tokens at once: the first token behind each prompt
  /// is known then. Where Options::prompt_rows is 1: as many steps of decode() as the longest rest of a
  /// prompt has tokens.
  Expected<void> prefill(cudaStream_t stream);
  /// begin(), and prefill().
  Expected<void> prefill(cudaStream_t stream, std::vector<std::vector<int>> const& prompts);
  /// Enqueues so many steps, k_steps_together to a graph while there are as many. In each, every sequence
  /// reads one token, of its prompt while there is one left, else the one just found, and the next one is
  /// found: the most likely (of equal ones the lowest), or one that is drawn.
  Expected<void> decode(cudaStream_t stream, int steps);
  /// Enqueues that the next step reads these, [sequence] in device memory, in place of what was found: for
  /// callers that choose tokens by logits() themselves. May be captured. What is no token is not read, and
  /// tokens() refuses (E0566).
  Expected<void> feed(cudaStream_t stream, int const* tokens);
  /// One step, or a part of it for who measures; may be captured. decode() replays graphs of it. A sequence
  /// that has no room left reads its last token again, and changes nothing.
  Expected<void> step(cudaStream_t stream, Part part = Part::all);
  /// Of steps by launches one operator alone, of all layers one behind the other; may be captured. For who
  /// measures: sequences are lost, begin() again. Refuses (E0566) where steps are persistent launches.
  Expected<void> only(cudaStream_t stream, LayerOperator which);
  /// Enqueues that steps go on where begin() began; may be captured.
  Expected<void> rewind(cudaStream_t stream);
  /// Waits for all steps. E0520: a wait met its deadline; the report names operator, layer (iteration) and
  /// tile. Then nothing of the sequences is to be used: begin() again.
  Expected<void> finish();
  /// Has a wait met its deadline since then? One load of host memory. The next call that enqueues says it as
  /// finish() does, and enqueues nothing.
  bool stalled() const;

  /// What each sequence has read and will read next, from its first token on, up to the one with which it has
  /// ended. Waits. Refuses (E0566) where no sequences have begun, as behind a stall, where the largest logit
  /// of a step was not a finite number, or the table of a paged cache had a page that there is not.
  Expected<std::vector<std::vector<int>>> tokens();
  /// Which sequences have ended with one of Options::stop_tokens. Waits, and refuses where none have begun.
  Expected<std::vector<bool>> ended();
  /// In device memory: [sequence][capacity], of which [sequence] have been read; behind these is the one that
  /// is read next.
  int const* ids() const;
  int const* cached() const;
  /// Of the last step, [sequence][vocabulary] in device memory; null unless kept, drawn from, or found by
  /// launches.
  float const* logits() const;
  /// Of the last step's layers, [layer][tile of the stage] in device memory; null unless kept.
  few_tokens::TileTimes const* tile_times(Stage stage) const;
  /// The cache, in device memory; cache.hpp says how keys and values lie.
  void* keys() const;
  void* values() const;
  CacheShape const& cache() const;
  /// Of weights as steps read them, without the embedding.
  std::size_t weight_bytes() const;
  Tiles const& tiles() const;
  /// As make() got them, but for `steps`, which is StepBy::launches where that was predicted to be faster.
  /// by_launches() and head_by_launches() say of these how steps are computed.
  Options const& options() const;

 private:
  struct State;
  static Expected<Decoder> of(std::shared_ptr<State> const& state, cudaStream_t stream);
  std::shared_ptr<State> state_;
};

}  // namespace tessera::decode
