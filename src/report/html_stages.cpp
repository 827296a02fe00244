// SPDX-License-Identifier: Apache-2.0
#include "report/html_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "report/critical_path.hpp"
#include "report/facts.hpp"
#include "report/html_parts.hpp"
#include "report/roof.hpp"
#include "report/slots.hpp"
#include "report/text.hpp"

namespace tessera::report {
namespace {

constexpr std::size_t k_most_path = 400;  ///< blocks that a page shows

/// What the letters of options and candidates mean (cuSync's optimizations, section 4).
constexpr std::array<std::pair<char, char const*>, 4> k_codes = {{
    {'W', "no wait kernel: a consumer is launched beside its producer at once, since its blocks find room"},
    {'R', "operands without a producer are loaded before the wait"},
    {'T', "no tickets: a block's own index is its place in the order"},
    {'S', "a plain store posts, where a single post makes a semaphore's value"},
}};

std::string stage_table(Plan const& plan) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    auto const& chosen = plan.stages[s];
    rows.push_back({html(stage.name), html(grid_text(stage)), std::to_string(stage.blocks()),
                    std::to_string(chosen.occupancy), waves_text(chosen.waves), html(kernel_text(plan, s)),
                    html(chosen.order.name), html(options_text(plan, s))});
  }
  return "<h3>Stages</h3>\n" + html_table({{"stage"},
                                           {"tiles"},
                                           {"blocks", Column::number},
                                           {"per SM", Column::number},
                                           {"waves", Column::number},
                                           {"kernel"},
                                           {"order"},
                                           {"options"}},
                                          rows);
}

std::string number(double value, double unit) {
  if (value <= 0) return "-";
  double const shown = value / unit;
  return fmt::format("{:.{}f}", shown, shown < 1 ? 3 : shown < 100 ? 1 : 0);
}

std::string rate_table(ReportEntry const& entry) {
  // Around launches every stage of one has the times of all of them.
  bool const measured = !entry.measured.stages.empty() && !entry.measured.by_launch;
  auto const& timeline = measured ? entry.measured : entry.timeline;
  if (timeline.stages.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (std::size_t s = 0; s < entry.plan.stages.size(); ++s) {
    auto const rates = stage_rates(entry.plan, timeline, s);
    rows.push_back({html(entry.plan.pipeline.stages[s].name), us_number(rates.ns * 1e-3),
                    number(rates.flops, 1e9), number(rates.tflops(), 1), number(rates.bytes, 1e6),
                    number(rates.gbps(), 1), rates.of_roof > 0 ? percent(rates.of_roof) : "-",
                    rates.of_roof <= 0 ? "-"
                    : rates.by_memory  ? "memory"
                                       : "matrix units"});
  }
  return fmt::format(
             "<h3>What stages compute and move</h3>\n<p class=\"soft\">{}, from where a stage's first block "
             "works to "
             "its last one's end. Bytes are those that it reads and writes, each once. Roof: the share of "
             "that time "
             "that its operations or, if all of them came from memory, its bytes take at the rates of the "
             "profile.</p>\n",
             timeline.measured ? "Measured" : "Simulated") +
         html_table({{"stage"},
                     {"us", Column::number},
                     {"GFLOP", Column::number},
                     {"TFLOP/s", Column::number},
                     {"MB", Column::number},
                     {"GB/s", Column::number},
                     {"of the roof", Column::number},
                     {"roof"}},
                    rows);
}

char const* words(HeldBy by) {
  switch (by) {
    case HeldBy::place: return "its place on the SM";
    case HeldBy::tiles: return "a tile that it reads";
    case HeldBy::stage: return "the whole stage before";
    case HeldBy::nothing: return "-";
  }
  return "";
}

std::string path_table(ReportEntry const& entry) {
  auto const path = critical_path(entry.plan, entry.timeline);
  if (path.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  // What a block waits while the one before it works is no loss of the path.
  std::int64_t lost = 0, before = 0;
  for (auto const& block : path) {
    auto const& tile = *block.tile;
    auto const& stage = entry.timeline.stages[static_cast<std::size_t>(tile.stage)];
    lost += std::max<std::int64_t>(0, tile.ready - std::max(tile.started, before));
    before = tile.posted;
    if (rows.size() < k_most_path)
      rows.push_back({html(fmt::format("{}({})", stage.name, coordinates(stage, tile))),
                      std::to_string(tile.sm), us_of(tile.started), us_of(tile.posted - tile.started),
                      us_of(tile.waiting), words(block.held_by)});
  }
  auto const left = path.size() - rows.size();
  return fmt::format(
      "<details><summary>Critical path: {}, {} of {} between one and the next{}</summary>\n{}</details>\n",
      plural(static_cast<std::int64_t>(path.size()), "block"), us_of(lost),
      us_of(path.back().tile->posted - path.front().tile->started),
      left > 0 ? fmt::format(" (the first {})", rows.size()) : "",
      html_table({{"block"},
                  {"SM", Column::number},
                  {"from", Column::number},
                  {"takes", Column::number},
                  {"waits", Column::number},
                  {"held by"}},
                 rows));
}

std::string code_list() {
  std::string rows;
  for (auto const& [code, meaning] : k_codes) rows += fmt::format("<dt>{}</dt><dd>{}</dd>", code, meaning);
  return "<details><summary>What W, R, T and S mean</summary><dl>" + rows + "</dl></details>\n";
}

}  // namespace

std::string stage_tables(ReportEntry const& entry) {
  return stage_table(entry.plan) + code_list() + rate_table(entry) + path_table(entry);
}

}  // namespace tessera::report
