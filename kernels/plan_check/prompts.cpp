// SPDX-License-Identifier: Apache-2.0
#include "prompts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/common/refusal.hpp"
#include "plan_buffers.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::plan_check {
namespace {

std::int64_t blocks_of(std::int64_t tokens, std::int64_t tile) { return (tokens + tile - 1) / tile; }

Buffer const* buffer_called(Pipeline const& pipeline, std::string const& name) {
  auto const found = std::find_if(pipeline.buffers.begin(), pipeline.buffers.end(),
                                  [&](Buffer const& one) { return one.name == name; });
  return found == pipeline.buffers.end() ? nullptr : &*found;
}

/// Rows of a producer, [begin, end), that the tile of head 0 waits for.
struct Rows {
  std::int64_t begin = 0, end = 0;
};
Rows awaited(TileRelation const& relation, std::int64_t block, std::int64_t tile_rows) {
  std::vector<TileRelation::Box> boxes;
  relation.boxes_of(block * relation.consumer_grid().extent[0], boxes);
  if (boxes.empty()) return {};
  Rows rows{boxes.front().begin[1], boxes.front().end[1]};
  for (auto const& box : boxes) {
    rows.begin = std::min<std::int64_t>(rows.begin, box.begin[1]);
    rows.end = std::max<std::int64_t>(rows.end, box.end[1]);
  }
  return {rows.begin * tile_rows, rows.end * tile_rows};
}

/// Does a tile wait for less than its queries see? The first one that does, or -1.
std::int64_t first_that_waits_for_less(Pipeline const& pipeline, Dependence const& dependence,
                                       Prompts const& prompts, std::int64_t tile) {
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const* kernel = shipped_kernels().find(producer.kernel);
  if (kernel == nullptr || kernel->whole || producer.grid.size() != 2) return -1;
  TileRelation const relation(pipeline, dependence);
  std::int64_t first = 0, block = 0;
  for (auto const tokens : prompts) {
    for (std::int64_t query = 0; query < tokens; query += tile, ++block) {
      auto const end = first + std::min(query + tile, tokens);
      auto const begin = dependence.operand == "a" ? first + query : first;
      auto const rows = awaited(relation, block, kernel->tile_m);
      if (rows.begin > begin || rows.end < end) return block;
    }
    first += tokens;
  }
  return -1;
}

}  // namespace

Prompts prompts_of(OperatorGraph const& graph) {
  for (auto const& op : graph.operators)
    if (op.kind == OperatorKind::attention && !op.groups.empty()) return op.groups;
  return {};
}

std::vector<std::int32_t> offsets_of(Prompts const& prompts) {
  std::vector<std::int32_t> offsets{0};
  for (auto const tokens : prompts) offsets.push_back(offsets.back() + static_cast<std::int32_t>(tokens));
  return offsets;
}

std::vector<std::int32_t> positions_of(Prompts const& prompts) {
  std::vector<std::int32_t> positions;
  for (auto const tokens : prompts)
    for (std::int32_t i = 0; i < tokens; ++i) positions.push_back(i);
  return positions;
}

Expected<void> check_prompts(Plan const& plan, Prompts const& prompts) {
  constexpr char const* k_way_out = "give the prompts that were planned: --prompts 512,128,2048";
  auto const& pipeline = plan.pipeline;
  bool needed = false;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    auto const* offsets = operand_of(stage, "offsets");
    if (kind_of(stage) != OperatorKind::attention || offsets == nullptr) continue;
    needed = true;
    auto const* where = buffer_called(pipeline, offsets->buffer);
    auto const* out = buffer_called(pipeline, output_of(stage));
    auto const count = where == nullptr ? 0 : where->columns - 1;
    if (prompts.empty())
      return kernels::refusal("E0563",
                              fmt::format("{} has {} prompts of unequal length, and a plan does not say how "
                                          "long they are",
                                          stage.name, count),
                              k_way_out);
    auto const tile = shipped_kernels().find(stage.kernel)->tile_m;
    std::int64_t rows = 0, blocks = 0;
    for (auto const tokens : prompts) {
      if (tokens < 1 || out == nullptr || tokens > out->rows)
        return kernels::refusal("E0563", fmt::format("{}: a prompt has {} tokens", stage.name, tokens),
                                k_way_out);
      rows += tokens, blocks += blocks_of(tokens, tile);
    }
    auto const grid = stage.tile_grid();
    if (std::ssize(prompts) != count || rows != out->rows || grid.rank != 2 || blocks != grid.extent[1])
      return kernels::refusal(
          "E0563",
          fmt::format("{} is planned for {} prompts of {} tokens together in {} tiles, and not for {} of {} "
                      "in {}",
                      stage.name, count, out->rows, grid.rank == 2 ? grid.extent[1] : 0, prompts.size(), rows,
                      blocks),
          k_way_out);
    for (auto const& dependence : pipeline.dependences)
      if (dependence.consumer == static_cast<int>(s))
        if (auto const block = first_that_waits_for_less(pipeline, dependence, prompts, tile); block >= 0)
          return kernels::refusal(
              "E0563",
              fmt::format("{}: block {} of queries does not wait for all rows that it would read of {}",
                          stage.name, block,
                          pipeline.stages[static_cast<std::size_t>(dependence.producer)].name),
              k_way_out);
  }
  if (!needed && !prompts.empty())
    return kernels::refusal("E0563", "the plan has no attention over prompts of unequal length",
                            "leave --prompts out");
  return {};
}

}  // namespace tessera::plan_check
