// SPDX-License-Identifier: Apache-2.0
#include "check/reuse.hpp"

#include <algorithm>
#include <cstddef>

#include "check/asked_before.hpp"
#include "check/limits.hpp"

namespace tessera::check_detail {
namespace {

constexpr std::int64_t k_few_steps = std::int64_t{1} << 20;   // a few milliseconds
constexpr std::int64_t k_most_steps = std::int64_t{1} << 25;  // of one question: 0.2 s
constexpr unsigned long k_operations = 20'000;                // about 0.1 s at worst

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
    if (std::ssize(reuses) > k_max_reuses) break;
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

bool decide_reuse(Pipeline const& pipeline, BufferReuse& reuse, ReuseEffort& effort) {
  auto const by_tiles = [&](std::int64_t most) {
    auto left = std::min(most, effort.steps);
    effort.steps -= left;
    bool const decided = decide_by_tiles(pipeline, reuse, left);
    effort.steps += std::max<std::int64_t>(left, 0);
    return decided;
  };
  if (by_tiles(k_few_steps)) return true;
  if (effort.set_questions-- > 0 && decide_by_sets(pipeline, reuse, k_operations)) return true;
  return by_tiles(k_most_steps);
}

void decide_reuses(Pipeline const& pipeline, std::vector<BufferReuse>& reuses) {
  // A row: the reuses of one writer, by reader. The row of an earlier writer of the buffer is how it begins.
  struct Row {
    std::size_t first = 0, end = 0;
    std::size_t last = 0;  // the nearest writer before, if it writes the same tiles; else first
  };
  std::vector<Row> rows(pipeline.stages.size());
  if (reuses.empty()) return;
  std::vector<bool> open(reuses.size());
  ReuseEffort effort;
  AskedBefore asked(pipeline);
  auto const decide = [&](BufferReuse& reuse) {
    if (asked.answer(reuse)) return true;
    bool const decided = decide_reuse(pipeline, reuse, effort);
    if (decided) asked.remember(reuse);
    return decided;
  };
  for (std::size_t first = 0, end = 0; first < reuses.size(); first = end) {
    auto const& writer = stage_at(pipeline, reuses[first].writer);
    auto last = first;
    for (; end < reuses.size() && reuses[end].writer == reuses[first].writer; ++end)
      if (stage_at(pipeline, reuses[end].reader).output == writer.output) last = end;
    if (!same_layout(writer, stage_at(pipeline, reuses[last].reader))) last = first;
    rows[static_cast<std::size_t>(reuses[first].writer)] = {first, end, last};
    // First what the rest follows from: it is near, and must not lack the effort that far ones take.
    for (auto at = last; at < end; ++at) open[at] = !decide(reuses[at]);
  }
  for (auto const& [first, end, last] : rows)
    for (auto at = first; at < last; ++at) {
      auto const before = rows[static_cast<std::size_t>(reuses[last].reader)].first + (at - first);
      reuses[at].covered = reuses[last].covered && reuses[before].covered;
      // What was too much for the writer before is too much for this one, which is farther away.
      open[at] = open[before] || (!reuses[at].covered && !decide(reuses[at]));
    }
}

}  // namespace tessera::check_detail
