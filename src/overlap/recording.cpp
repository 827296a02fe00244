// SPDX-License-Identifier: Apache-2.0
// Recorders put together as a timeline.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "overlap/recorder.hpp"

namespace tessera::overlap {
namespace {

constexpr std::int64_t k_bin_ps = 1'000'000;
constexpr std::size_t k_most_bins = 2048;

/// Neighbouring bins are joined until few enough are left.
ByteCounter counter(OverlapRun const& run, std::int64_t bin, int gpu) {
  std::size_t joined = 1;
  while ((run.series.size() + joined - 1) / joined > k_most_bins) joined *= 2;
  ByteCounter out{"DRAM",
                  gpu,
                  bin * static_cast<std::int64_t>(joined),
                  {"GEMM reads", "GEMM writes", "collective reads", "collective writes"},
                  {}};
  for (std::size_t first = 0; first < run.series.size(); first += joined)
    for (std::size_t t = 0; t < k_traffics; ++t) {
      double sum = 0;
      for (auto b = first; b < std::min(first + joined, run.series.size()); ++b) sum += run.series[b][t];
      out.bytes.push_back(std::llround(sum));
    }
  return out;
}

}  // namespace

OverlapOptions with_series(OverlapOptions options) {
  if (options.record && options.series_ps == 0) options.series_ps = k_bin_ps;
  return options;
}

Timeline timeline_of(std::vector<Recorder> recorders, std::vector<OverlapRun> const& runs,
                     OverlapRun const& all, MachineProfile const& machine, RecordingNames names,
                     std::int64_t series_ps) {
  Timeline t;
  t.pipeline = std::move(names.pipeline);
  t.machine = machine.name;
  t.mechanism = std::move(names.mechanism);
  t.end = all.end;
  t.gpus = static_cast<int>(recorders.size());
  t.sms = machine.sms;
  t.stages = {std::move(names.stage)};
  auto& stage = t.stages.front();
  Picoseconds busy = 0;
  for (std::size_t r = 0; r < recorders.size(); ++r) {
    auto& recorder = recorders[r];
    auto blocks = recorder.take_blocks();
    if (t.tiles.empty())
      t.tiles = std::move(blocks);
    else
      t.tiles.insert(t.tiles.end(), blocks.begin(), blocks.end());
    busy += recorder.busy();
    t.waves = std::max(t.waves, static_cast<double>(recorder.most_blocks_of_a_place()));
    for (double const bytes : runs[r].bytes) t.dram_bytes += bytes;
    recorder.add_tracks(t);
    t.counters.push_back(counter(runs[r], series_ps, static_cast<int>(r)));
  }
  auto const sm_time = static_cast<double>(std::max<Picoseconds>(t.end, 1)) * t.gpus * t.sms;
  t.busy = std::min(1.0, static_cast<double>(busy) / sm_time);
  t.dram_busy = std::min(1.0, all.dram_busy);
  std::sort(t.tiles.begin(), t.tiles.end(), [](TileRecord const& a, TileRecord const& b) {
    return std::tie(a.started, a.tile, a.gpu) < std::tie(b.started, b.tile, b.gpu);
  });
  if (!t.tiles.empty()) stage.first_start = t.tiles.front().started;
  for (auto const& tile : t.tiles) {
    stage.last_end = std::max(stage.last_end, tile.posted);
    t.slots_per_sm = std::max(t.slots_per_sm, tile.slot + 1);
  }
  return t;
}

}  // namespace tessera::overlap
