// SPDX-License-Identifier: Apache-2.0
// What a run was, as everything behind the simulator wants it.
#include <algorithm>

#include "gpu.hpp"

namespace tessera::simulation {

Timeline Gpu::timeline() const {
  Timeline t;
  t.pipeline = plan_.pipeline.name;
  t.machine = machine_.name;
  t.mechanism = mechanism_text(plan_);
  t.end = end_;
  t.sms = machine_.sms;
  t.slots_per_sm = slots_seen_;
  auto const end = static_cast<double>(std::max<Picoseconds>(end_, 1));
  auto active = active_time_;
  t.busy = std::min(1.0, static_cast<double>(active) / (end * static_cast<double>(sms_.size())));
  t.waves = slot_runs_.empty() ? 0 : *std::max_element(slot_runs_.begin(), slot_runs_.end());
  t.dram_bytes = servers_[k_dram].total() + counted_dram_bytes_;
  auto const limited = static_cast<double>(servers_[k_dram].limited() + counted_dram_time_);
  t.dram_busy = std::min(1.0, limited / end);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    auto const& stage = plan_.pipeline.stages[s];
    StageSpan span{stage.name, stages_[s].first_start, stages_[s].last_end, stage.tiles(), stage.splits,
                   {},         plan_.stages[s].variant};
    for (auto const& dim : stage.grid) span.extent.push_back(dim.extent);
    t.stages.push_back(std::move(span));
  }
  t.tiles = records_;
  std::sort(t.tiles.begin(), t.tiles.end(), [](TileRecord const& a, TileRecord const& b) {
    if (a.started != b.started) return a.started < b.started;
    if (a.stage != b.stage) return a.stage < b.stage;
    if (a.tile != b.tile) return a.tile < b.tile;
    return a.split < b.split;
  });
  return t;
}

}  // namespace tessera::simulation
