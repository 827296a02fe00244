// SPDX-License-Identifier: Apache-2.0
// Is a pipeline what its author meant? Bounds, cycles, coverage, counts, buffer reuse; before any
// machine, policy or cost is known.
#pragma once

#include <cstdint>
#include <vector>

#include "../describe/loop.hpp"

namespace tessera {

/// Exact facts about one dependence, by counting.
struct DependenceFacts {
  std::int64_t pairs = 0;          ///< (consumer tile, producer tile) pairs
  std::int64_t min_producers = 0;  ///< producer tiles that one consumer tile reads
  std::int64_t max_producers = 0;
  std::int64_t unread_producers = 0;  ///< producer tiles that no consumer tile of this dependence reads

  bool operator==(DependenceFacts const&) const = default;
};

/// A later stage overwrites a buffer that an earlier stage still reads or wrote. Under stream order
/// nothing can happen; a mechanism that starts `writer` early must order these tiles (spec 3, hazards).
struct BufferReuse {
  int writer = 0;  ///< stage that overwrites the buffer
  int reader = 0;  ///< earlier stage that reads (or wrote) the old contents
  std::string buffer;
  bool covered = false;          ///< every tile of `writer` already waits, through dependences, for all
                                 ///< tiles of `reader` that touch what it overwrites
  std::int64_t writer_tile = 0;  ///< if not covered: a tile of `writer` that may overwrite too early,
  std::int64_t reader_tile = 0;  ///< and a tile of `reader` that it does not wait for

  bool operator==(BufferReuse const&) const = default;
};

/// A pipeline that passed check(). Only check() makes one.
class CheckedPipeline {
 public:
  Pipeline const& pipeline() const { return pipeline_; }
  std::vector<DependenceFacts> const& facts() const { return facts_; }  ///< one per dependence
  std::vector<BufferReuse> const& reuses() const { return reuses_; }
  Diagnostics const& warnings() const { return warnings_; }
  /// Of a loop that is written out: so many stages are an iteration. 0: no loop.
  int iteration_stages() const { return iteration_stages_; }

 private:
  friend Expected<CheckedPipeline> check(Pipeline const& pipeline);
  friend Expected<CheckedPipeline> check(Loop const& loop, int iterations);
  CheckedPipeline() = default;

  Pipeline pipeline_;
  std::vector<DependenceFacts> facts_;
  std::vector<BufferReuse> reuses_;
  Diagnostics warnings_;
  int iteration_stages_ = 0;
};

/// Refuses with every mistake found, not only the first: empty or oversized grids, unknown or
/// duplicate names, wrong ranks, producer tiles outside their grid (with the first offending pair as
/// counter-example, and how many there are), dependences that go in a circle or backwards in launch
/// order, operands that name no buffer or whose writer no dependence names, impossible costs. "First"
/// is in launch order: smallest linear tile. Pure; <= 1 s for 10^6 tiles.
Expected<CheckedPipeline> check(Pipeline const& pipeline);

/// A loop of more iterations than this cannot be written out.
constexpr int k_most_iterations = 4096;

/// The same for a loop, written out so often; what is found in several iterations is said once, for the
/// first. Refuses as well what would go wrong only in more iterations, and E0114 (a loop that means nothing)
/// and E0115 (a copy of a buffer that is overwritten too early).
Expected<CheckedPipeline> check(Loop const& loop, int iterations);

class PipelineBuilder;
/// build() and check() in one: what either refuses.
Expected<CheckedPipeline> check(PipelineBuilder const& builder);

}  // namespace tessera
