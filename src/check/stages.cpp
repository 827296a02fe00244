// SPDX-License-Identifier: Apache-2.0
#include "check/stages.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <set>

#include "check/limits.hpp"
#include "check/names.hpp"
#include "describe/limits.hpp"
#include "describe/names.hpp"

namespace tessera::check_detail {
namespace {

constexpr double k_largest_amount = 1e15;    // flops or bytes of a block; it would take minutes
constexpr double k_longest_block_ns = 1e12;  // a thousand seconds: simulated time counts picoseconds

void check_name(Pipeline const& pipeline, Stage const& stage, std::string const& what,
                std::string const& name, Diagnostics& found) {
  if (is_identifier(name)) return;
  found.push_back(
      {"E0102",
       Severity::error,
       place_of(pipeline, stage),
       name.empty() ? fmt::format("{} has no name", what)
                    : fmt::format("\"{}\" cannot be the name of {}", name, what),
       {},
       "names become C++ identifiers: letters, digits and _, at most 64, a letter first, and no keyword"});
}

void check_names(Pipeline const& pipeline, int index, Diagnostics& found) {
  auto const& stage = pipeline.stages[static_cast<std::size_t>(index)];
  auto const name = name_of(pipeline, index);
  check_name(pipeline, stage, fmt::format("stage {}", index), stage.name, found);

  std::set<std::string> dimensions;
  for (std::size_t d = 0; d < stage.grid.size(); ++d) {
    auto const& dimension = stage.grid[d].name;
    check_name(pipeline, stage, fmt::format("dimension {} of {}", d, name), dimension, found);
    if (is_identifier(dimension) && !is_dimension_name(dimension))
      found.push_back({"E0102",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("\"{}\" cannot be the name of dimension {} of {}", dimension, d, name),
                       {},
                       "all, clamp, floor, max, min and mod are words of the expression language"});
    if (!dimensions.insert(dimension).second && !dimension.empty())
      found.push_back({"E0102",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("{} has two dimensions named {}", name, dimension),
                       {},
                       "rename one of them"});
  }

  std::set<std::string> operands;
  for (std::size_t o = 0; o < stage.operands.size(); ++o) {
    auto const& operand = stage.operands[o].name;
    check_name(pipeline, stage, fmt::format("operand {} of {}", o, name), operand, found);
    if (!operands.insert(operand).second && !operand.empty())
      found.push_back({"E0102",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("{} has two operands named {}", name, operand),
                       {},
                       "rename one of them"});
    if (stage.operands[o].buffer.empty())
      found.push_back({"E0106",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("operand {} of {} names no buffer", operand, name),
                       {},
                       "give it the output buffer of its producer, or the name of an outside tensor"});
  }
  if (stage.output.empty())
    found.push_back({"E0106",
                     Severity::error,
                     place_of(pipeline, stage),
                     fmt::format("{} names no output buffer", name),
                     {},
                     "the stage's own name is the usual choice"});
}

bool check_grid(Pipeline const& pipeline, int index, Diagnostics& found) {
  auto const& stage = pipeline.stages[static_cast<std::size_t>(index)];
  auto const name = name_of(pipeline, index);
  auto const before = found.size();
  auto const add = [&](std::string message, std::string suggestion) {
    found.push_back(
        {"E0101", Severity::error, place_of(pipeline, stage), std::move(message), {}, std::move(suggestion)});
  };

  if (stage.grid.empty()) add(fmt::format("{} has no grid", name), "give it at least one dimension");
  if (stage.grid.size() > k_max_rank)
    add(fmt::format("the grid of {} has {} dimensions; at most {} are possible", name, stage.grid.size(),
                    k_max_rank),
        "merge dimensions that are always used together");
  for (auto const& dim : stage.grid) {
    if (dim.extent < 1)
      add(fmt::format("dimension {} of {} has {}", dim.name, name, count_text(dim.extent, "tile")),
          "every dimension has at least one tile; was a size divided by a larger tile?");
    if (dim.extent > k_max_tiles)
      add(fmt::format("dimension {} of {} has {} tiles; a stage can have at most {}", dim.name, name,
                      dim.extent, k_max_tiles),
          "use larger tiles");
  }
  if (found.size() == before) {
    // At most 4 extents of at most 2^24: multiplied step by step, stopping above the limit.
    std::int64_t tiles = 1;
    for (auto const& dim : stage.grid)
      if (tiles <= k_max_tiles) tiles *= dim.extent;
    if (tiles > k_max_tiles)
      add(fmt::format("the grid of {} is {}; a stage can have at most {} tiles", name, grid_text(stage),
                      k_max_tiles),
          "use larger tiles");
    else if (stage.splits > 0 && tiles * stage.splits > k_max_blocks)
      add(fmt::format("{} has {} x {} splits = {} blocks; a launch can have at most {}", name,
                      count_text(tiles, "tile"), stage.splits, tiles * stage.splits, k_max_blocks),
          "use larger tiles or fewer splits");
  }
  auto const usable = found.size() == before;
  if (stage.splits < 1)
    add(fmt::format("{} has {}", name, count_text(stage.splits, "split")),
        "1 means that a tile is computed by one block");
  return usable;
}

void check_costs(Pipeline const& pipeline, int index, Diagnostics& found) {
  auto const& stage = pipeline.stages[static_cast<std::size_t>(index)];
  auto const name = name_of(pipeline, index);
  auto const amount = [&](std::string const& what, double value) {
    if (std::isfinite(value) && value >= 0 && value <= k_largest_amount) return;
    found.push_back({"E0109",
                     Severity::error,
                     place_of(pipeline, stage),
                     fmt::format("{} of {} is {}", what, name, value),
                     {},
                     value > k_largest_amount && std::isfinite(value)
                         ? fmt::format("a block has at most {:.0e} here", k_largest_amount)
                         : "costs are finite and not negative; 0 means none"});
  };
  auto const number = [&](std::string const& what, int value, int low, int high) {
    if (value >= low && value <= high) return;
    found.push_back({"E0109",
                     Severity::error,
                     place_of(pipeline, stage),
                     fmt::format("{} of {} is {}", what, name, value),
                     {},
                     fmt::format("it must be from {} to {}", low, high)});
  };

  amount("flops_per_block", stage.flops_per_block);
  amount("store_bytes_per_block", stage.store_bytes_per_block);
  for (auto const& operand : stage.operands) {
    amount(fmt::format("bytes_per_block of operand {}", operand.name), operand.bytes_per_block);
    amount(fmt::format("unique_bytes of operand {}", operand.name), operand.unique_bytes);
    amount(fmt::format("full_bytes of operand {}", operand.name), operand.full_bytes);
  }
  // 16 is what a GPU allows where a kernel asks for it.
  if (std::int64_t const blocks = std::int64_t{stage.cluster_rows} * stage.cluster_columns; blocks > 16)
    found.push_back({"E0109",
                     Severity::error,
                     place_of(pipeline, stage),
                     fmt::format("a cluster of {} is {} x {}, {} blocks", name, stage.cluster_rows,
                                 stage.cluster_columns, blocks),
                     {},
                     "a cluster has at most 16 blocks"});
  auto const& time = stage.block_time;
  for (auto const& [what, ns] :
       {std::pair{"alone_ns", time.alone_ns}, {"share_ns", time.share_ns}, {"waits_ns", time.waits_ns}}) {
    if (!std::isfinite(ns) || ns <= k_longest_block_ns)
      amount(fmt::format("block_time.{}", what), ns);
    else
      found.push_back({"E0109",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("block_time.{} of {} is {}", what, name, ns),
                       {},
                       fmt::format("a block takes at most {:.0e} ns here", k_longest_block_ns)});
  }
  if (!time.known() && time != BlockTime{})
    found.push_back({"E0109",
                     Severity::error,
                     place_of(pipeline, stage),
                     fmt::format("block_time of {} does not say how long a block takes alone", name),
                     {},
                     "alone_ns is more than 0 where a block's time was measured"});
  // The upper ends hold for every CUDA GPU; what one machine can hold is the planner's question.
  number("threads", stage.resources.threads, 1, 1024);
  number("registers_per_thread", stage.resources.registers_per_thread, 0, 255);
  number("shared_bytes", stage.resources.shared_bytes, 0, 1 << 30);
  number("k_steps", stage.k_steps, 1, 1 << 30);
  number("pipeline_stages", stage.pipeline_stages, 1, k_most_pipeline_stages);
}

}  // namespace

std::vector<bool> check_stages(Pipeline const& pipeline, Diagnostics& found) {
  if (pipeline.stages.empty())
    found.push_back({"E0101",
                     Severity::error,
                     pipeline.where,
                     fmt::format("pipeline \"{}\" has no stages", pipeline.name),
                     {},
                     "add at least one stage"});

  std::vector<bool> usable;
  std::map<std::string, int> first_of;
  std::int64_t total = 0;
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s) {
    auto const& stage = pipeline.stages[static_cast<std::size_t>(s)];
    check_names(pipeline, s, found);
    if (auto const [earlier, is_new] = first_of.emplace(stage.name, s); !is_new && !stage.name.empty())
      found.push_back({"E0102",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("two stages are named {}", stage.name),
                       {fmt::format("stage {} and stage {}", earlier->second, s)},
                       "rename one of them"});
    usable.push_back(check_grid(pipeline, s, found));
    if (usable.back()) total += stage.tiles();
    if (usable.back() && stage.efficiency > 0 && stage.blocks() > 1)
      found.push_back({"E0109",
                       Severity::error,
                       place_of(pipeline, stage),
                       fmt::format("efficiency of {} is {}, and it has {}", name_of(pipeline, s),
                                   stage.efficiency, count_text(stage.blocks(), "block")),
                       {},
                       "it is of a stage that is one tile, a launch of a library; leave it out"});
    check_costs(pipeline, s, found);
  }
  if (total > k_max_total_tiles) {
    found.push_back({"E0112",
                     Severity::error,
                     pipeline.where,
                     fmt::format("pipeline \"{}\" has {} tiles; at most {} can be checked exactly",
                                 pipeline.name, total, k_max_total_tiles),
                     {},
                     "use larger tiles, or split the pipeline"});
    usable.assign(usable.size(), false);
  }
  return usable;
}

}  // namespace tessera::check_detail
