// SPDX-License-Identifier: Apache-2.0
// An MLP for up to 128 tokens on Hopper, both GEMMs in one persistent launch: what bounds it is reading the
// weights, so they never stop being read, neither between the GEMMs nor between one MLP and the next.
// docs/skinny-mlp.md explains it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <string>
#include <tessera/sync.cuh>
#include <vector>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::skinny_sm90 {

constexpr int most_tokens = 128;

/// How the work is cut. A tuner tries those that configs() names; the first is the best guess.
struct Config {
  // Which compiled kernel.
  int token_tile = 8;  ///< 8, 16, 32, 64 or 128 columns of the matrix instruction; at least the tokens
  int split = 1;       ///< blocks that multiply parts of the same rows' depth: 1; above 32 tokens 2
  int tiles = 2;       ///< most units of 64 rows that a block multiplies with one load of activations
  // The rest is read at run time.
  int second_split = 0;  ///< of the second GEMM: 1 or `split`; 0: `split`
  int first_tiles = 1;   ///< of the first GEMM; 1 or `tiles`
  int second_tiles = 1;
  int first_waves = 0;  ///< parts of the features, one after the other, each of which streams the activations
  int second_waves = 0;  ///< once more; 0: as few as the rows allow
  int first_depth = 4;   ///< k-blocks of 64 to a slot of the ring of weights: neighbours in memory
  int second_depth = 4;
  int slots = 0;             ///< of the ring of weights; 0: as many as there is room for
  int activation_depth = 4;  ///< k-blocks to a stage of the ring of activations: 1, 2 or 4
  int activation_stages = 4;
  int blocks = 0;  ///< in the grid; 0: as many as are resident at once
};

/// "n16 s1 t2: 1+2 tiles, 1+1 waves, 4+4 deep, 7 slots, 6x4 activations, 132 blocks"; "s2+1" where only the
/// first GEMM is split.
std::string to_string(Config const& config);
/// What to_string() wrote; none if it is anything else.
std::optional<Config> parse_config(std::string const& text);

/// What a tuner may try for this shape, best guess first. Empty if no kernel here is for it.
std::vector<Config> configs(mlp::Shape const& shape);

/// Why not, as one sentence; nullptr if it can. Looks at sizes only, needs no GPU.
char const* refusal(mlp::Shape const& shape, Config const& config);
inline bool can_implement(mlp::Shape const& shape, Config const& config) {
  return refusal(shape, config) == nullptr;
}

/// A shape and a configuration that this device can run.
struct Plan {
  mlp::Shape shape;
  Config config;  ///< with everything filled in
  int threads = 0;
  int shared_bytes = 0;
};

/// Loads the kernel's code, lets it use its shared memory and asks how many of its blocks are resident at
/// once. Call it before the first launch, per device; not while a stream is being captured.
/// cudaErrorInvalidValue if refusal() has a reason, cudaErrorNotSupported if the device is not sm_90 or has
/// no room. Counts the SMs of the current context, which may be a part of the device's.
cudaError_t prepare(mlp::Shape const& shape, Config const& config, Plan* plan);

/// 32-bit words of device memory for the semaphores of launches with so many hidden features, whatever
/// their tokens, configuration and type. Zero it once, and again after a stall.
std::size_t workspace_words(int hidden);

/// One launch.
///
/// The caller guarantees:
///  - Launches that share `workspace` or `h` are in one stream (or ordered by events), programmatic or not.
///  - With `programmatic`, the kernel before may still run when this one starts, and weights are read at
///    once: w1 and w2 must have been complete before the kernel before began. x, h, y and the workspace are
///    touched only when every earlier kernel is complete (griddepcontrol.wait in every block, so completion
///    stays transitive: a kernel after this one that waits for it has waited for all before).
///  - The kernel after, if it is launched programmatically, may start while this one runs: it must execute
///    griddepcontrol.wait before it touches x, h, y or the workspace. Every launch of this library does.
///  - All blocks must become resident: kernels in other streams must leave by themselves, without waiting
///    for this launch. Two launches at once in two streams are safe as long as the GPU places the blocks of
///    one launch before those of the next, as today's do; otherwise the deadline ends them.
struct Call {
  mlp::Buffers buffers;
  unsigned* workspace = nullptr;  ///< 128-byte aligned
  bool programmatic = false;
  /// Refused by the driver unless all blocks can be resident at once; not with `programmatic`, which is what
  /// counts of the two.
  bool cooperative = false;
  DeadlineWatch<> watch;  ///< both fields set: there is no launch without a deadline
  int stage = 1;          ///< for the stall record: the consumer is the second GEMM
};

/// Capturable; a graph is replayed without a reset. cudaErrorInvalidValue if a pointer is missing or not
/// aligned.
cudaError_t launch(Plan const& plan, Call const& call, cudaStream_t stream);

/// "block 17 waits for hidden features 128...191: 63 of 64 posted; gave up after 200 ms"; empty if there is
/// no stall.
std::string explain(StallRecord const& record, Plan const& plan);

}  // namespace tessera::skinny_sm90
