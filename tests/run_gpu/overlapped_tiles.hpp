// SPDX-License-Identifier: Apache-2.0
// A chain of two stages, repeated: what the consumer makes of the producer's tiles and of its own tile of the
// iteration before is a running hash of everything that was computed.
#pragma once

#include <memory>

#include "tessera/run/run_loop.hpp"

namespace tessera::overlapped_tiles {

constexpr int k_width = 32;  ///< values of a tile

TESSERA_HOST_DEVICE constexpr unsigned scrambled(unsigned value) {
  value = (value ^ value >> 16) * 0x7feb352du;
  value = (value ^ value >> 15) * 0x846ca68bu;
  return value ^ value >> 16;
}
/// What the producer stores at a place in an iteration.
TESSERA_HOST_DEVICE constexpr unsigned made(long long iteration, unsigned place) {
  return scrambled(static_cast<unsigned>(iteration) * 0x9e3779b9u + place);
}
/// What the consumer makes of it, of what is left and right of it, and of its own value before.
TESSERA_HOST_DEVICE constexpr unsigned mixed(unsigned before, unsigned left, unsigned own, unsigned right) {
  return scrambled(before * 31u + (left ^ own * 3u ^ right * 7u));
}

/// Nanoseconds of the GPU's global timer, of all blocks of a launch.
struct Stamps {
  unsigned long long began = ~0ULL;     ///< the first one, before it waits for anything
  unsigned long long computed = ~0ULL;  ///< the first one, after it has waited
  unsigned long long ended = 0;         ///< the last one, before it posts
};

struct Buffers {
  unsigned* produced[2] = {};  ///< copies, of which the second may not be there
  unsigned* hashes[2] = {};    ///< iteration n writes copy n modulo 2
  int columns = 0;             ///< tiles
  int copies = 1;              ///< of `produced`
  unsigned slow = 0;           ///< one tile in so many is late; 0: none
  long long clocks = 0;        ///< so much
  Stamps* stamps = nullptr;    ///< of iteration n: the producer's at 2 n, the consumer's behind it; or null
  int const* stop = nullptr;   ///< tile 0 of the producer does not post in this iteration; or null
};

class OverlappedLoop {
 public:
  static Expected<OverlappedLoop> make(LoopPlan const& plan, Buffers const& buffers,
                                       ChainOptions const& options);
  /// E0510: a loop of two stages and one function.
  static Expected<void> with_one_function(LoopPlan const& plan);
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<ChainGraph> capture(long long iterations);
  Expected<void> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Enqueues a kernel that lets the next one start at once, and after `clocks` copies so many values.
void copy_late(unsigned* to, unsigned const* from, int values, long long clocks, GpuStream stream);

}  // namespace tessera::overlapped_tiles
