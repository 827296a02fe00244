// SPDX-License-Identifier: Apache-2.0
// An MLP for any number of tokens, each by the kernels that were measured to be fastest for it on this GPU.
// docs/mlp.md shows how to use it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/tune/cache.hpp>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::mlp {

struct MlpOptions {
  /// Where `tessera tune` has written; empty: default_cache_file() (cache_file.hpp).
  std::string cache_file;
  bool use_cache = true;
  /// Take this instead of reading a file.
  TuneCache const* cache = nullptr;
  /// Every launch by the candidate of this name, which is then refused where it cannot do the size: for tests
  /// and measurements.
  std::string only;
};

/// Owns what launches need beside their operands. Launches of one Mlp share it: they must be in one stream,
/// or ordered by events. Use one Mlp per stream otherwise. Belongs to the device that was current in make().
class Mlp {
 public:
  /// For up to `most.tokens`. Reads the cache once, loads the kernels that it names, and allocates:
  /// hidden (gated: 3 * hidden) elements per token and 80 MiB. A cache that is corrupted or was made
  /// elsewhere is no error: see notes(). E0530 for sizes that are no multiple of 8, E0511, E0533.
  static Expected<Mlp> make(Shape const& most, MlpOptions const& options = {});

  Mlp(Mlp&&) noexcept;
  Mlp& operator=(Mlp&&) noexcept;
  ~Mlp();  ///< the launches must be complete

  /// y = mlp(x) for 1...most.tokens tokens; layouts as in problem.hpp. Does not wait; may be captured in a
  /// graph, which can then be replayed without resets. E0536 for arguments that are out of range or not
  /// aligned. The weights must have been complete before the kernel that was enqueued before this call began.
  Expected<void> launch(void const* x, void const* w1, void const* w2, void* y, int tokens,
                        cudaStream_t stream);

  /// The name of the candidate that launch() takes for so many tokens.
  Expected<std::string> choice(int tokens);

  /// What was wrong with the cache, or that it has nothing for this shape. Warnings and refusals alike: all
  /// were answered by taking cuBLASLt.
  Diagnostics const& notes() const;

  /// Waits for the stream. E0534 if a wait between two kernels gave up since the last call, so that some y is
  /// wrong; E0511.
  Expected<void> finish(cudaStream_t stream);

 private:
  struct State;
  explicit Mlp(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The same in one call: the Mlp is made when a device, stream and shape come for the first time, or with
/// more tokens than before, and kept to the end of the process.
Expected<void> mlp(void const* x, void const* w1, void const* w2, void* y, Shape const& shape,
                   cudaStream_t stream);

}  // namespace tessera::mlp
