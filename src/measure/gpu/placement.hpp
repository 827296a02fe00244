// SPDX-License-Identifier: Apache-2.0
// Where a kernel should let the next one start: two dependent layers, FC1 then FC2, as matrix products of
// plain CUDA, with FC1's trigger in different places. Every block stamps its life.
#pragma once

#include <string>
#include <vector>

#include "measure/gpu/experiments.hpp"
#include "tessera/sync/record.cuh"

namespace tessera::probe {

struct Placement {
  std::string name;  ///< "start", ..., as in the figures "pdl.overlap.start"
  std::string what;
  bool programmatic = true;
  std::vector<BlockStamps> stamps;  ///< of one chain, that of the median length: FC1's blocks, then FC2's
};

struct PlacementStudy {
  int rows = 0, inner = 0,
      columns = 0;  ///< X is rows x inner, both weights inner x columns; columns == inner
  int tile = 0;     ///< tiles of the outputs are tile x tile
  int threads = 0;
  int registers = 0;
  int shared_bytes = 0;  ///< of a block
  std::vector<Placement> placements;
  std::vector<Figure> figures;
};

/// Every placement in turns, many times, as graphs of chains; every output is checked against a reference.
PlacementStudy study_placement(Context const& context);

}  // namespace tessera::probe
