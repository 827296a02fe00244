// SPDX-License-Identifier: Apache-2.0
// Prompts at the speed of matrix products: all layers over some thousand tokens, a launch for each operator.
// Weights are those that steps read; what lies between the products is done in fp32 and rounded once.
#pragma once

#include <functional>

#include "kernels/attention_sm90/problem.hpp"
#include "kernels/decode/decoder.hpp"
#include "kernels/decode/device_memory.hpp"
#include "kernels/decode/head.hpp"
#include "kernels/decode/layer_products.hpp"
#include "kernels/decode/operator_launches.hpp"
#include "kernels/decode/packed_weights.hpp"
#include "kernels/decode/pass_kernels.hpp"
#include "kernels/decode/rotation_table.hpp"

namespace tessera::decode {

/// Memory of passes alone.
struct PassBuffers {
  RowBuffers rows;
  void *keys = nullptr,
       *values = nullptr;  ///< of positions before a pass, and of its own: [row][key head][head_size]
  PassPlaces places;
};

/// How attention of a pass is computed: attention_sm90::attention(), or what a test has in its place.
using PassAttention = std::function<Expected<void>(attention_sm90::Problem const&, void const* q,
                                                   void const* k, void const* v, void* out, cudaStream_t)>;

/// Rows of a pass for a decoder of these options; 0: it has none.
int pass_rows_of(Options const& options);
/// Keys that the runs of a pass may see together.
int pass_keys_of(Options const& options);
/// Takes places, or adds up what they take.
PassBuffers pass_places(Pieces& pieces, Model const& model, Options const& options);
std::size_t pass_bytes(Model const& model, Options const& options);

/// So many tokens and more of prompts are read by a pass: a step of the kernels for few tokens takes longer.
constexpr int k_least_pass_tokens = 8;

/// Passes of so many rows and more are of products whose algorithms are worth to be timed.
constexpr int k_least_timed_rows = 1024;

class PromptPass {
 public:
  /// Loads the products of a full pass, and times their algorithms where Options::time_products asks for it.
  /// E0533: the library has no such product.
  static Expected<PromptPass> make(Model const& model, PackedWeights const& weights, Options const& options,
                                   PassBuffers const& own, PassSurroundings const& around,
                                   PassAttention attention, cudaStream_t stream);

  /// Enqueues passes that read the positions `unread` of each sequence. `then_head`: the head finds the token
  /// behind the last of them next, of every sequence.
  Expected<void> read(cudaStream_t stream, std::vector<Positions> const& unread, bool then_head) const;

 private:
  Expected<void> read_table(cudaStream_t stream, PassTable const& table) const;
  Expected<void> attend(cudaStream_t stream, PassTable const& table, int number) const;

  Model model_;
  PassBuffers own_;
  PassSurroundings around_;
  StepEnd end_;  ///< whose stream and x are the pass's own
  PassAttention attention_;
  OperatorLaunches layers_;
  int rows_ = 0, keys_ = 0;
};

}  // namespace tessera::decode
