// SPDX-License-Identifier: Apache-2.0
#include "reuse.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::simulation {
namespace {

/// Which panel of an operand each tile reads. A pipeline does not say it, the bytes do: there are
/// unique / bytes_per_block panels (times splits), so the panel follows from the coordinates whose extents
/// have that product. Where several sets of coordinates fit as well, operands take different ones, slow
/// coordinates first: a GEMM's A its rows, B its columns.
class Panels {
 public:
  explicit Panels(Stage const& stage) : tiles_(stage.tiles()), splits_(stage.splits) {
    for (auto const& dim : stage.grid) extent_.push_back(dim.extent);
  }

  struct Of {
    std::vector<std::int32_t> tile;  ///< panel by linear tile
    std::int64_t count = 1;
  };
  Of of(Operand const& operand) {
    auto const coordinates = choose(operand);
    Of panels;
    std::vector<std::int64_t> stride(extent_.size(), 0), at(extent_.size(), 0);
    for (std::size_t d = 0; d < extent_.size(); ++d)
      if (coordinates >> d & 1) {
        stride[d] = panels.count;
        panels.count *= extent_[d];
      }
    panels.tile.reserve(static_cast<std::size_t>(tiles_));
    for (std::int64_t tile = 0, panel = 0; tile < tiles_; ++tile) {
      panels.tile.push_back(static_cast<std::int32_t>(panel));
      for (std::size_t d = 0; d < extent_.size(); ++d) {
        panel += stride[d];
        if (++at[d] < extent_[d]) break;
        panel -= at[d] * stride[d];
        at[d] = 0;
      }
    }
    return panels;
  }

 private:
  unsigned choose(Operand const& operand) {
    auto const wanted = std::log(operand.unique_bytes / operand.bytes_per_block / splits_);
    unsigned best = 0;
    double least = 1e300;
    bool best_taken = false;
    for (unsigned set = 1U << extent_.size(); set-- > 0;) {
      double product = 1;
      for (std::size_t d = 0; d < extent_.size(); ++d)
        if (set >> d & 1) product *= static_cast<double>(extent_[d]);
      auto const distance = std::abs(std::log(product) - wanted);
      bool const is_taken = std::find(taken_.begin(), taken_.end(), set) != taken_.end();
      bool const equal = std::abs(distance - least) < 1e-9;
      if (equal ? best_taken && !is_taken : distance < least) {
        best = set;
        least = distance;
        best_taken = is_taken;
      }
    }
    taken_.push_back(best);
    return best;
  }

  std::int64_t tiles_;
  double splits_;
  std::vector<std::int64_t> extent_;
  std::vector<unsigned> taken_;
};

/// Bytes of an operand that are distinct within their wave, summed over waves.
double distinct_in_waves(Stage const& stage, StagePlan const& planned, Operand const& operand,
                         Panels::Of const& panels, std::int64_t wave) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(panels.count * stage.splits), -1);
  auto const tiles = stage.tiles();
  std::int64_t distinct = 0, number = 0, left = wave;
  auto const visit = [&](std::int64_t tile, std::int64_t split) {
    auto& last =
        seen[static_cast<std::size_t>(panels.tile[static_cast<std::size_t>(tile)] * stage.splits + split)];
    distinct += last != number;
    last = number;
    if (--left == 0) {
      ++number;
      left = wave;
    }
  };
  // The order of block_work(), without its divisions.
  if (planned.custom_order) {
    for (std::int64_t position = 0; position < tiles; ++position)
      for (int split = 0; split < stage.splits; ++split) visit(planned.order.tile_at(position), split);
  } else {
    for (int split = 0; split < stage.splits; ++split)
      for (std::int64_t tile = 0; tile < tiles; ++tile) visit(tile, split);
  }
  return operand.unique_bytes * static_cast<double>(distinct) / static_cast<double>(seen.size());
}

double held(double capacity, double bytes) { return bytes > capacity ? capacity / bytes : 1; }

}  // namespace

std::vector<double> dram_reads(Stage const& stage, StagePlan const& planned, double l2_bytes,
                               std::int64_t wave) {
  auto const blocks = static_cast<double>(stage.blocks());
  std::vector<double> reads;
  double all = stage.store_bytes_per_block * static_cast<double>(stage.tiles());
  for (auto const& operand : stage.operands) {
    reads.push_back(std::min(operand.unique_bytes, operand.bytes_per_block * blocks));
    all += reads.back();
  }
  if (all <= l2_bytes) return reads;

  wave = std::clamp<std::int64_t>(wave, 1, stage.blocks());
  double const waves = std::ceil(blocks / static_cast<double>(wave));
  std::vector<double> in_waves = reads;
  double between = stage.store_bytes_per_block * static_cast<double>(wave) / stage.splits;
  Panels panels(stage);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    auto const& operand = stage.operands[i];
    auto const loaded = operand.bytes_per_block * blocks;
    // Read once by one block each: nothing to share.
    if (reads[i] > 0 && reads[i] < loaded)
      in_waves[i] =
          std::clamp(distinct_in_waves(stage, planned, operand, panels.of(operand), wave), reads[i], loaded);
    between += in_waves[i] / waves;
  }
  int const slices = std::max(stage.k_steps, 1);
  auto const in_flight = std::clamp(stage.pipeline_stages, 1, slices) / static_cast<double>(slices);
  auto const again = 1 - held(l2_bytes, between);
  auto const apart = 1 - held(l2_bytes, between * in_flight);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    auto const loaded = std::max(stage.operands[i].bytes_per_block * blocks, in_waves[i]);
    reads[i] += (in_waves[i] - reads[i]) * again + (loaded - in_waves[i]) * apart;
  }
  return reads;
}

}  // namespace tessera::simulation
