// SPDX-License-Identifier: Apache-2.0
#include "report/roof.hpp"

#include <algorithm>

namespace tessera::report {

StageRates stage_rates(Plan const& plan, Timeline const& timeline, std::size_t stage) {
  auto const& of = plan.pipeline.stages[stage];
  auto const blocks = static_cast<double>(of.blocks());
  StageRates rates;
  rates.flops = of.flops_per_block * blocks;
  rates.bytes = of.store_bytes_per_block * blocks;
  for (auto const& operand : of.operands) rates.bytes += operand.unique_bytes;
  if (stage >= timeline.stages.size()) return rates;
  auto const& span = timeline.stages[stage];
  bool const loads_early = plan.stages[stage].reorder_loads;
  auto first = span.last_end;
  for (auto const& tile : timeline.tiles)
    if (static_cast<std::size_t>(tile.stage) == stage)
      first = std::min(first, loads_early ? tile.started : tile.ready);
  if (timeline.tiles.empty()) first = span.first_start;
  rates.ns = static_cast<double>(std::max<std::int64_t>(0, span.last_end - first)) * 1e-3;
  if (rates.ns <= 0 || !plan.machine_values) return rates;
  auto const& machine = *plan.machine_values;
  double const compute = machine.matrix_flops_per_ns() * machine.sms, memory = machine.dram_gbps;
  double const computes = compute > 0 ? rates.flops / compute : 0;
  double const moves = memory > 0 ? rates.bytes / memory : 0;
  rates.by_memory = moves > computes;
  rates.of_roof = std::max(computes, moves) / rates.ns;
  return rates;
}

}  // namespace tessera::report
