// SPDX-License-Identifier: Apache-2.0
// cuSync's tables, simulated: GPT-3's two GEMMs, and two convolutions of ResNet-38, in stream order and
// synchronized tile by tile.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"

namespace tessera {

/// One row of Table IV, simulated. Times in microseconds.
struct CusyncRow {
  std::int64_t tokens = 0;
  std::array<std::int64_t, 3> grid1{}, grid2{};  ///< rows of tiles, columns of tiles, splits
  double waves1 = 0, waves2 = 0;                 ///< of the two kernels alone
  double paper_stream = 0, paper_best = 0;
  double paper_tflops = 0;  ///< that the paper's stream time implies
  /// What no run of these grids on this machine can be faster than: its busiest SM computes whole blocks at
  /// the matrix units' peak. In stream order, and with both kernels in flight.
  double least_stream = 0, least = 0;
  double stream = 0;
  double tile_sync = 0, row_sync = 0;  ///< the fastest of Table V's steps
  double best() const { return tile_sync < row_sync ? tile_sync : row_sync; }
};

/// One step of Table V (64 tokens): without optimizations, +R, +WR, +WRT.
struct CusyncStep {
  std::string optimizations;
  double paper = 0;
  double simulated = 0;
};

/// One row of Table V(b): two 3x3 convolutions, Conv2DTileSync. Times in microseconds.
struct CusyncConvolution {
  std::int64_t channels = 0, images = 0;
  std::array<std::int64_t, 3> grid{};  ///< rows of tiles, columns of tiles, splits; of both kernels
  double waves = 0;                    ///< of one of them alone
  double stream = 0;
  std::array<double, 4> steps{};  ///< without optimizations, +R, +WR, +WRT
  double paper_stream = 0;        ///< of the artifact's result file: the table has none
  std::array<double, 4> paper{};
};

struct CusyncStudy {
  MachineProfile machine;
  double peak_tflops = 0;
  std::vector<CusyncRow> rows;
  std::vector<CusyncStep> steps;
  std::vector<CusyncConvolution> convolutions;
};

/// Table V(b) with tiles and splits of the paper's artifact. Refuses what does not fit the machine.
Expected<std::vector<CusyncConvolution>> study_cusync_convolutions(MachineProfile const& machine);

/// Grids, splits and blocks per SM as the paper prints them, on any machine. Refuses what does not fit it.
Expected<CusyncStudy> study_cusync(MachineProfile const& machine);

}  // namespace tessera
