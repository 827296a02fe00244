// SPDX-License-Identifier: Apache-2.0
// A matrix product whose operands or results are spread over the GPUs of a host: what is computed and how the
// work is cut, without a GPU.
#pragma once

#include <optional>
#include <string>
#include <tessera/communicate/shards.hpp>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "src/gpu/element_type.hpp"

namespace tessera::gemm_collectives {

using gpu::ElementType;

enum class Collective {
  all_reduce,      ///< depth is spread; every rank gets all of d
  reduce_scatter,  ///< depth is spread; a rank gets its rows of d
  all_gather,      ///< rows of a, and rows of b, are spread; a rank gets its columns of d
};

/// d = a * b^T, row-major, fp32 sums. The sizes are those of the whole product; a rank has
///   all_reduce, reduce_scatter: a[rows][depth / ranks], b[columns][depth / ranks]
///   all_gather:                 a[its rows][depth],     b[columns / ranks][depth]
///   all_reduce:                 d[rows][columns]
///   reduce_scatter:             d[its rows][columns]
///   all_gather:                 d[rows][columns / ranks]
/// with its rows as shard_of() says: any number of rows will do.
struct Problem {
  Collective collective = Collective::all_reduce;
  int rows = 0;
  int columns = 0;
  int depth = 0;
  ElementType type = ElementType::bf16;
  int ranks = 2;
  bool gelu = false;  ///< of each sum, tanh form: of all_gather alone, whose sums no other rank adds to

  int local_depth() const { return collective == Collective::all_gather ? depth : depth / ranks; }
  int local_columns() const { return collective == Collective::all_gather ? columns / ranks : columns; }
  auto operator<=>(Problem const&) const = default;
};

/// Where the tokens of a layer's part are, whose products the ranks share.
enum class Tokens {
  spread,  ///< a rank has its tokens of x and of y: all-gather before, reduce-scatter behind
  whole,   ///< each rank has all of x, and gets all of y: an all-reduce behind. For few tokens
};

/// How the transfers go.
enum class Way {
  automatic,   ///< choose_way()
  words,       ///< all_reduce: the product, then one kernel that sends packets with tokens and adds
  fused,       ///< all_reduce of few rows: the same in one kernel, whose blocks send what they have summed
  store,       ///< products of the peers' rows store into the peers' memory, then sums of a shard
  add,         ///< of two GPUs: as copy, in parts, and products of the own rows add what has come
  copy,        ///< a copy engine sends while the next product runs, then sums of a shard
  sequential,  ///< cuBLASLt, then NCCL
};

char const* to_string(Collective collective);
/// As the command line names them: "gemm-all-reduce", "gemm-reduce-scatter", "all-gather-gemm".
std::optional<Collective> collective_named(std::string const& name);
char const* to_string(Way way);
/// "gemm_all_reduce of 8 x 8192 x 8192 on 2 GPUs".
std::string to_string(Problem const& problem);

/// Ways that there are, the automatic one not among them.
std::vector<Way> ways_of(Problem const& problem);

/// Refuses (E0581) sizes that do not divide, and others that no kernel is for.
Expected<void> check_problem(Problem const& problem);

/// The way by what was measured on two H200 and on two and four H100 (docs/design/notes-peers.md). Shards of
/// few rows go in sequence, where there is a library for it.
Way choose_way(Problem const& problem, bool library = true);

/// Elements of a rank's memory that the peers write to: slots of one shard each, a rank's in the order of
/// ranks. 0: there are none.
long long slot_elements(Problem const& problem);

/// Bytes that have to leave a GPU, whatever the way: its shares of the others' rows, and of an all-reduce the
/// sums of its own rows to all of them (a switch that adds or copies would spare some of it).
double wire_bytes(Problem const& problem);

}  // namespace tessera::gemm_collectives
