// SPDX-License-Identifier: Apache-2.0
// A model's block as operators with sizes, not yet cut into tiles: what the importers make, and what
// the planner tiles in many ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernel.hpp"
#include "loop.hpp"

namespace tessera {

/// How an operator's input is cut out of the tensor that its producer wrote. Filled by the importers;
/// tile() turns it into tile dependences for any tile shape.
enum class ReadPattern {
  rows,  ///< tile row y needs all columns of the producer's rows (GEMM after GEMM, softmax after scores)
  swiglu_pair,       ///< as rows, where the producer wrote gate and up halves side by side
  query_heads,       ///< scores: rows of one sequence, columns of one head, from the fused QKV output
  key_heads,         ///< scores: the head's K columns (grouped-query: one K head serves several query heads)
  value_heads,       ///< context: the head's V columns
  same_batch_rows,   ///< batched GEMM after batched row operator: same batch entry, same rows
  heads_to_columns,  ///< output projection: all heads of the rows
  conv_halo,         ///< 2-D convolution: pixel rows with halo, all channels
  same_tile,         ///< element-wise
};

struct OperatorInput {
  std::string name;      ///< operand name: "a", "b"
  std::string buffer;    ///< external tensor, or the output of the operator named so
  std::string producer;  ///< operator name; empty for an external tensor
  ReadPattern pattern = ReadPattern::rows;
  /// Which of the producer's tiles share a semaphore, however large they are; nothing: the planner's choice.
  std::optional<NamedPolicy> policy = {};

  bool operator==(OperatorInput const&) const = default;
};

struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::gemm;
  Epilogue epilogue = Epilogue::none;
  std::int64_t m = 1, n = 1, k = 1;  ///< per batch entry, elements
  std::int64_t batch = 1;            ///< attention: sequences * query heads
  std::vector<OperatorInput> inputs;
  std::string output;  ///< buffer; the operator's name unless given
  SourceLine where;
  /// Rows of each group, in order, m of them together. Of a GEMM: experts, each with a right-hand matrix of
  /// its own. Of an attention: prompts of unequal length, `sequences` of up to `tokens`. Empty: there are
  /// none.
  std::vector<std::int64_t> groups = {};

  bool operator==(Operator const&) const = default;
};

/// Sizes that the attention and convolution patterns need.
struct AttentionShape {
  std::int64_t sequences = 1, tokens = 1, cached = 0;  ///< per sequence: new tokens, tokens in the cache
  std::int64_t query_heads = 1, kv_heads = 1, head_dim = 128;
  bool causal = false;      ///< a token sees no later ones; of OperatorKind::attention only
  std::int64_t window = 0;  ///< > 0: it sees so many keys at most, up to its own, which is causal; 0: all

  bool operator==(AttentionShape const&) const = default;
};
struct ConvShape {
  std::int64_t images = 1, p = 1, q = 1, channels = 1, r = 3, s = 3;

  bool operator==(ConvShape const&) const = default;
};

struct OperatorGraph {
  std::string name;                 ///< "llama-65b mlp, 768 tokens, tp 8"
  std::vector<Operator> operators;  ///< in launch order
  AttentionShape attention;
  ConvShape conv;
  int element_bytes = 2;
  ElementType type = ElementType::bf16;  ///< decides which forms of the kernels can run it
  SourceLine where;

  bool operator==(OperatorGraph const&) const = default;
};

/// Operators to be tiled by the planner, or a pipeline whose tiles the user fixed, or one that is repeated.
using Workload = std::variant<OperatorGraph, Pipeline, Loop>;
std::string const& name_of(Workload const& workload);

/// What tile() needs for each operator.
struct TileChoice {
  KernelEntry kernel;
  int splits = 1;

  bool operator==(TileChoice const&) const = default;
};

/// Is it a kernel for this operator of the graph: its kind, epilogue, type, and sizes where a kernel is for
/// some alone?
bool computes(KernelEntry const& kernel, OperatorGraph const& graph, Operator const& op);
/// Does its attention see one new token of each sequence behind cached ones?
bool generates(OperatorGraph const& graph);

/// Cuts every operator into tiles: one choice per operator, in order. The result's stages carry grids,
/// costs, resources and exact dependences. Refuses a choice of the wrong kind or count (E0150), splits or a
/// form that the kernel does not have (E0151).
/// `prefetch` of weights and halves are costed as operand bytes.
Expected<Pipeline> tile(OperatorGraph const& graph, std::vector<TileChoice> const& choices);

}  // namespace tessera
