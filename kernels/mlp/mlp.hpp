// SPDX-License-Identifier: Apache-2.0
// An MLP for any number of tokens, each by the plan that was measured to be fastest for it on this GPU.
// docs/mlp.md shows how to use it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/tune/cache.hpp>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::mlp {

struct MlpOptions {
  /// Where `tessera tune` has written; empty: default_cache_file() (tessera/tune/cache_file.hpp). Where it
  /// has nothing of these sizes, what came with the library counts (shipped_tunings()).
  std::string cache_file;
  bool use_cache = true;
  /// Take this instead of reading a file.
  TuneCache const* cache = nullptr;
  /// Every launch by this plan of an MLP, resized; refused where it cannot do the size: for tests and
  /// measurements.
  std::optional<Plan> only;
  /// How long a wait between two kernels may take before its launch gives up. The default is far above any
  /// launch's time and what a neighbour on the GPU usually holds an SM for, and short enough for a person.
  double deadline_seconds = 10;
  /// May the first kernel load weights while the kernel before the call still runs? Otherwise it starts when
  /// all that was enqueued before is complete, whatever the plan says.
  bool early_weights = true;
  /// Hidden activations, and what libraries and split sums need, are in memory that each launch is lent
  /// (scratch_bytes()), and not in the Mlp's own.
  bool lends_scratch = false;
  /// How many sets of addresses are kept for each number of tokens.
  int address_sets = 64;
  /// For how many numbers of tokens a plan is kept, bound and with its counters; 0: all that come. Another
  /// one takes the place of the one that was not launched for the longest time: its launches are waited for,
  /// and all other kernels of the device, as its memory is freed. With a limit launches must not be captured:
  /// a graph would use what is given up.
  int most_plans = 0;
};

/// Device memory that a launch is lent.
struct LentScratch {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Owns what launches need beside their operands. Launches of one Mlp share it: they must be in one stream,
/// or ordered by events. Use one Mlp per stream otherwise. Belongs to the device that was current in make().
class Mlp {
 public:
  /// For up to `most.tokens`. Reads the cache once, loads the kernels that it names, and allocates `hidden`
  /// elements per token and what the plans need. A cache that is corrupted or was made elsewhere is no error:
  /// see notes(). E0530 for sizes that are no multiple of 8, E0511, E0533.
  static Expected<Mlp> make(Shape const& most, MlpOptions const& options = {});

  Mlp(Mlp&&) noexcept;
  Mlp& operator=(Mlp&&) noexcept;
  ~Mlp();  ///< waits for the launches

  /// y = mlp(x) for 1...most.tokens tokens; layouts as in Buffers. Does not wait; may be captured in a graph,
  /// which can then be replayed without resets. The first launch with other addresses binds the kernels to
  /// them, which takes tens of microseconds of the host; the last `address_sets` are kept. E0536 for
  /// arguments that are out of range or not aligned. With `early_weights`, the weights must have been
  /// complete before the kernel that was enqueued before this call began.
  ///
  /// E0520 if a launch before gave up, so that some y is wrong: then all launches have been waited for,
  /// nothing was enqueued, and the next call works (docs/recovery.md). E0520, once, if anything else that
  /// this library launched from this thread did: x may be what it should have written. In a capture nothing
  /// can be waited for: call finish() outside of it then, and capture again.
  ///
  /// `scratch`: with `lends_scratch`, scratch_bytes(tokens) or more, 256-byte aligned, which nobody else uses
  /// before the launch is complete.
  Expected<void> launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                        cudaStream_t stream, LentScratch scratch = {});

  /// What launch() has to be lent; 0 without `lends_scratch`. The same at every call.
  Expected<std::size_t> scratch_bytes(int tokens);

  /// The plan that launch() takes for so many tokens.
  Expected<Plan> choice(int tokens);

  /// For how many numbers of tokens plans are kept now.
  int plans() const;

  /// What was wrong with the cache, or that it has nothing for this shape. Warnings and refusals alike: all
  /// were answered by taking cuBLASLt.
  Diagnostics const& notes() const;

  /// Waits for the stream. E0520 if a wait between two kernels gave up since the last call, so that some y is
  /// wrong, with the tile that waited; E0511.
  Expected<void> finish(cudaStream_t stream);

  /// Has a wait given up since the last finish()? One load of host memory: waits for nothing, neither for a
  /// launch() nor a finish() in another thread.
  bool stalled() const;

 private:
  struct State;
  explicit Mlp(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The same in one call: the Mlp is made when a device, stream and shape come for the first time, or with
/// more tokens than before, and kept to the end of the process; of a capture, for as long as there are graphs
/// of it, whose replays must not overlap each other. E0520 if an earlier call gave up, whose y is
/// wrong: ask again. The last call's y is known to be right when finish() says so.
Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream);
/// Waits for the stream. E0520 if a call of mlp() in it, or in any graph, gave up since the last time.
Expected<void> finish(cudaStream_t stream);

/// Sizes that no kernel here can do: E0530.
Expected<void> check(Shape const& shape);

/// Both products by cuBLASLt's first choice, one after the other: what is taken without a measurement.
Expected<Plan> default_plan(Shape const& shape);

}  // namespace tessera::mlp
