// SPDX-License-Identifier: Apache-2.0
// Two GEMMs, the second of which reads what the first one wrote: y = gelu(x * w1^T) * w2^T, or the same with
// SwiGLU. Any kernel goes with any other. Calls of the kernels without a plan: what a plan's launches come
// to.
#pragma once

#include "kernels/common/mlp_problem.hpp"
#include "kernels/gemm_sm90/gemm.hpp"

namespace tessera::gemm_sm90 {

enum class Mechanism {
  stream_order,  ///< the second kernel starts when the first is complete
  pdl,           ///< it starts early, loads weights, and waits for the first one as a whole
  pdl_tiles,     ///< it starts early and waits tile by tile
};

/// How one of the two GEMMs runs.
struct Half {
  Kernel const* kernel = nullptr;  ///< nullptr: something else runs it; see calls_of()
  int band = 1;                    ///< this and the next as in Call
  int most_blocks = 0;
};

struct PairPlan {
  Half first;
  Half second;
  Mechanism mechanism = Mechanism::stream_order;
  int columns_per_semaphore = 1;  ///< pdl_tiles: 1 for a semaphore per tile; large for one per row
  bool early_weights = true;
  /// The first kernel, too, starts when the one before it in the stream has started, if that allows it (as
  /// the second one does): from one MLP to the next. With early_weights, w1 must not come from a kernel
  /// before.
  bool chained = false;
};

/// Device memory of one pair. x[tokens][model], w1[hidden][model] (swiglu: [2 * hidden][model], see
/// mlp::Buffers), h[tokens][hidden], w2[model][hidden], y[tokens][model], all row-major. `counters` are
/// counters_of() words, zeroed once; a plan with other kernels, grids or sizes needs others (or zeros again).
/// `stall` is read after the launch.
struct PairBuffers {
  int tokens = 0;
  int model = 0;
  int hidden = 0;
  void const* x = nullptr;
  void const* w1 = nullptr;
  void* h = nullptr;
  void const* w2 = nullptr;
  void* y = nullptr;
  unsigned long long* counters = nullptr;
  StallRecord* stall = nullptr;
  mlp::Form form = mlp::Form::gelu;
  ElementType type = ElementType::bf16;
  float* sums = nullptr;               ///< sum_bytes_of(), of this pair alone during the launch
  RuntimeWait const* table = nullptr;  ///< a copy of table_of(), where that is not empty
};

/// 64-bit words that launch_pair() counts in.
long long counters_of(PairPlan const& plan, PairBuffers const& buffers);
/// What a policy needs that groups columns.
std::vector<RuntimeWait> table_of(PairPlan const& plan, PairBuffers const& buffers);

/// Bytes where the blocks of kernels with `splits` leave their sums; nothing for others.
std::size_t sum_bytes_of(PairPlan const& plan, PairBuffers const& buffers);

/// What the two kernels are called with. A half without a kernel has its problem and nothing else, and nobody
/// posts to or waits for it: start the other with its kernel's launch(), before or after in stream order.
/// That one counts in the same words.
struct PairCalls {
  Call first;
  Call second;
};
PairCalls calls_of(PairPlan const& plan, PairBuffers const& buffers);

/// Both kernels are there, and are for this form, type and size.
bool can_implement(PairPlan const& plan, PairBuffers const& buffers);

/// Starts both kernels; cudaErrorInvalidValue unless can_implement(). Capturable: a replayed graph needs
/// nothing reset. A wait that is longer than a second ends with a stall record.
cudaError_t launch_pair(PairPlan const& plan, PairBuffers const& buffers, cudaStream_t stream);

}  // namespace tessera::gemm_sm90
