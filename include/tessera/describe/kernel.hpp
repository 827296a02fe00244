// SPDX-License-Identifier: Apache-2.0
// Kernels as data: what a kernel computes, how its tiles lie, what its blocks hold and what it can do. Needs
// neither CUDA nor a GPU. How a kernel is launched is its binding (run/bindings.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline.hpp"

namespace tessera {

enum class OperatorKind {
  gemm,             ///< C[batch][m, n] = A[batch][m, k] * B[batch][k, n], epilogue fused
  softmax_dropout,  ///< rows of [batch][m, n]
  conv2d,           ///< implicit GEMM, NHWC: m = images*p*q, n = output channels, k = channels*r*s
  copy,             ///< element-wise, m*n elements
  sum,              ///< of m*n elements: one element
  /// softmax(q * k^T) * v of all heads in one kernel: m = rows of all sequences, n = query heads * head size.
  /// A tile is some queries of one head: tile_m queries, tile_n the head size, tile_k keys at a time. Kernels
  /// for one new token of each sequence: KernelEntry::of_new_tokens.
  attention,
  /// RMSNorm or LayerNorm of m rows of n fp32 numbers each, as elements. A tile is whole rows; a kernel is
  /// for rows of tile_k to tile_n columns.
  norm,
  /// Queries and keys of a QKV product turned by their positions, or given their biases, or both: m rows of
  /// all heads' n columns, k the head size, which is the kernel's tile_n. A tile is whole rows.
  turn_heads,
};

/// swiglu and geglu: of neighbouring columns, gate and up; the output has half of them. residual: another
/// matrix is added to the product, both it and the output in fp32.
enum class Epilogue { none, gelu, swiglu, geglu, residual };
constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::swiglu || epilogue == Epilogue::geglu;
}

enum class ElementType { bf16, fp16, fp32, fp64, int32 };
int bytes_of(ElementType type);

char const* to_text(OperatorKind kind);
char const* to_text(Epilogue epilogue);
char const* to_text(ElementType type);

/// A compiled form of a kernel. Forms of one kernel have the same tile, and differ in what follows from type
/// and epilogue.
struct KernelForm {
  std::vector<ElementType> types;
  std::vector<Epilogue> epilogues;
  int pipeline_stages = 2;  ///< slices in flight
  Resources resources;
  bool rounds_sums = false;  ///< to the element type, before the epilogue

  bool operator==(KernelForm const&) const = default;
};

/// How many parts of a tile's depth are computed by blocks of their own (split-K).
constexpr int k_any_splits = 0;

/// One kernel: a tile shape of a family. A stage that it computes has its name in Stage::kernel.
struct KernelEntry {
  std::string name;    ///< unique in a registry: "gemm_128x256x64_2x1"
  std::string family;  ///< whose binding launches it: "gemm_sm90"; "published": planned and simulated only
  std::vector<std::string> architectures;  ///< "sm_90"
  OperatorKind kind = OperatorKind::gemm;
  int tile_m = 128, tile_n = 128;  ///< rows and columns of the product, before a gate halves the columns
  int tile_k = 32;
  int cluster_m = 1, cluster_n = 1;  ///< blocks of a cluster, in rows and columns; they share what they load
  bool swapped = false;     ///< computes the transposed product; tile and cluster are those of the output
  bool alternates = false;  ///< one tile of a block is multiplied while the one before is stored (ping-pong)
  int splits = 1;           ///< compiled for so many, or k_any_splits
  /// The last block of a tile to arrive adds the other blocks' sums, stores, and posts for all of them
  /// (PersistentStage::post(tile, splits)); the others do not post.
  bool last_split_posts = false;
  /// One launch computes the whole output and cuts it in its own way: the stage is one tile, and what is
  /// above of tiles and resources means nothing.
  bool whole = false;
  /// `whole`: share of the machine's rates that it reaches where the profile has no measurement of it.
  double efficiency = 1;
  double fixed_ns = 0;  ///< `whole`: what a launch takes beside what bytes and operations do
  /// Somebody else's: plans of these alone are what a tuner's other plans are measured against.
  bool library = false;
  /// Of a product, `whole`: rows that it takes at most, tile_m at least, of tile_n columns or a multiple and
  /// a depth of tile_k or a multiple. Its right-hand matrix comes from outside, and is read before it waits.
  /// 0: it takes all sizes.
  int most_rows = 0;
  /// Of attention, `whole`: of one new token of each sequence over those in a cache, up to tile_m query heads
  /// to a key head. Others are of prompts.
  bool of_new_tokens = false;
  std::vector<KernelForm> forms;
  Abilities can;

  bool operator==(KernelEntry const&) const = default;
};

/// The form for this type and epilogue; nullptr if there is none.
KernelForm const* find_form(KernelEntry const& kernel, Epilogue epilogue, ElementType type);

/// Kernels by name. The first that does a job is the first choice where nothing is priced.
class Registry {
 public:
  Registry() = default;

  /// Refuses a name that is taken or empty, and a kernel without forms, tile or architecture (E0155).
  Expected<void> add(KernelEntry kernel);

  std::vector<KernelEntry> const& kernels() const { return kernels_; }
  KernelEntry const* find(std::string_view name) const;
  /// In order of addition.
  std::vector<KernelEntry> for_architecture(std::string_view architecture) const;

 private:
  std::vector<KernelEntry> kernels_;
};

}  // namespace tessera
