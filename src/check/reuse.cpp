// SPDX-License-Identifier: Apache-2.0
#include "check/reuse.hpp"

#include <algorithm>
#include <cstddef>

namespace tessera::check_detail {
namespace {

constexpr std::int64_t k_few_steps = std::int64_t{1} << 20;  // a few milliseconds
constexpr unsigned long k_operations = 20'000;               // about 0.1 s at worst

Stage const& stage_at(Pipeline const& pipeline, int index) {
  return pipeline.stages[static_cast<std::size_t>(index)];
}

bool reads(Stage const& stage, std::string const& buffer) {
  return std::any_of(stage.operands.begin(), stage.operands.end(),
                     [&](Operand const& o) { return o.buffer == buffer; });
}

bool same_layout(Stage const& a, Stage const& b) {
  auto const same_extent = [](GridDim const& x, GridDim const& y) { return x.extent == y.extent; };
  return std::equal(a.grid.begin(), a.grid.end(), b.grid.begin(), b.grid.end(), same_extent) &&
         a.store_bytes_per_block == b.store_bytes_per_block;
}

}  // namespace

std::vector<BufferReuse> find_reuses(Pipeline const& pipeline) {
  std::vector<BufferReuse> reuses;
  for (int writer = 0; writer < static_cast<int>(pipeline.stages.size()); ++writer) {
    auto const& buffer = stage_at(pipeline, writer).output;
    for (int reader = 0; reader < writer; ++reader)
      if (stage_at(pipeline, reader).output == buffer || reads(stage_at(pipeline, reader), buffer))
        reuses.push_back({writer, reader, buffer, false, 0, 0});
  }
  return reuses;
}

Conflict conflict_of(Pipeline const& pipeline, BufferReuse const& reuse) {
  auto const& writer = stage_at(pipeline, reuse.writer);
  auto const& reader = stage_at(pipeline, reuse.reader);
  Conflict conflict;
  if (reader.output == reuse.buffer) {
    if (same_layout(writer, reader))
      conflict.same_tile = true;
    else
      conflict.whole = true;
  }
  for (auto const& operand : reader.operands) {
    if (operand.buffer != reuse.buffer) continue;
    bool described = false;
    for (std::size_t i = 0; i < pipeline.dependences.size(); ++i) {
      auto const& dependence = pipeline.dependences[i];
      if (dependence.consumer != reuse.reader || dependence.operand != operand.name) continue;
      described = true;
      if (same_layout(writer, stage_at(pipeline, dependence.producer)))
        conflict.dependences.push_back(static_cast<int>(i));
      else
        conflict.whole = true;
    }
    if (!described) conflict.whole = true;
  }
  return conflict;
}

void decide_reuse(Pipeline const& pipeline, BufferReuse& reuse, ReuseEffort& effort) {
  auto few = std::min(k_few_steps, effort.steps);
  effort.steps -= few;
  auto const decided = decide_by_tiles(pipeline, reuse, few);
  effort.steps += std::max<std::int64_t>(few, 0);
  if (decided) return;
  if (effort.set_questions-- > 0 && decide_by_sets(pipeline, reuse, k_operations)) return;
  decide_by_tiles(pipeline, reuse, effort.steps);
}

}  // namespace tessera::check_detail
