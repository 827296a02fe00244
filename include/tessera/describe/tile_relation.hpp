// SPDX-License-Identifier: Apache-2.0
// A dependence, ready to be asked "which producer tiles does this consumer tile read?" 10^6 times.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline.hpp"
#include "tile_program.hpp"

namespace tessera {

/// Compiled form of one dependence's accesses. Precondition: consumer and producer are valid stage
/// indices and every access has one range per producer dimension (check() ensures both).
class TileRelation {
 public:
  TileRelation(Pipeline const& pipeline, Dependence const& dependence);

  /// Linear producer tiles that a consumer tile (linear) reads: ascending, no duplicates. Ranges are
  /// cut to the producer's grid, clamped or not (check() refuses pipelines where that matters).
  void producers_of(std::int64_t consumer_tile, std::vector<std::int64_t>& out) const;

  /// One box [begin, end) per access, cut to the grid; empty boxes are left out. Boxes may overlap.
  struct Box {
    int begin[k_max_rank];
    int end[k_max_rank];
  };
  void boxes_of(std::int64_t consumer_tile, std::vector<Box>& out) const;

  /// Do the boxes depend on this coordinate of the consumer's tile?
  bool uses(int dimension) const;

  TileGrid const& consumer_grid() const { return consumer_; }
  TileGrid const& producer_grid() const { return producer_; }

 private:
  TileGrid consumer_;
  TileGrid producer_;
  struct Range {
    TileProgram begin;
    TileProgram end;
  };
  std::vector<Range> ranges_;  // one for each access and producer dimension, access by access
};

}  // namespace tessera
