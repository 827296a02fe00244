// SPDX-License-Identifier: Apache-2.0
#include "report/tile_viewer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/critical_path.hpp"
#include "report/slots.hpp"
#include "report/text.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
std::span<ShippedFile const> report_scripts();  // cmake/EmbedFiles.cmake
}  // namespace tessera

namespace tessera::report {
namespace {

constexpr std::size_t k_most_tiles = 6000;
constexpr std::int64_t k_most_boxes = 20000;

bool fits(Plan const& plan, Timeline const& timeline) {
  return !timeline.tiles.empty() && timeline.tiles.size() <= k_most_tiles && is_of(plan, timeline);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == '<')
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

template <class List, class Text>
std::string array(List const& list, Text const& text) {
  std::string out = "[";
  for (auto const& one : list) out += (out.size() > 1 ? "," : "") + text(one);
  return out + "]";
}

std::string stages(Timeline const& timeline) {
  auto const at_once = most_at_once(timeline);
  std::size_t s = 0;
  return array(timeline.stages, [&](StageSpan const& stage) {
    return fmt::format("{{\"name\":{},\"extent\":[{}],\"splits\":{},\"at_once\":{}}}", quoted(stage.name),
                       fmt::join(stage.extent, ","), stage.splits, at_once[s++]);
  });
}

/// [stage, tile, SM, split, started, waits, ready, ended], in ns.
std::string tiles(Timeline const& timeline) {
  return array(timeline.tiles, [](TileRecord const& tile) {
    auto const ns = [](std::int64_t ps) { return ps / 1000; };
    return fmt::format("[{},{},{},{},{},{},{},{}]", tile.stage, tile.tile, tile.sm, tile.split,
                       ns(tile.started), ns(wait_begin(tile)), ns(tile.ready), ns(tile.posted));
  });
}

/// Of each tile of the consumer the boxes of tiles that it reads; [] where all of the producer is awaited,
/// null where they are too many for a page.
std::string boxes(Plan const& plan, std::size_t d) {
  auto const& edge = plan.pipeline.dependences[d];
  auto const& consumer = plan.pipeline.stages[static_cast<std::size_t>(edge.consumer)];
  if (plan.dependences[d].semaphore_set < 0) return "[]";
  if (consumer.tiles() * static_cast<std::int64_t>(edge.accesses.size()) > k_most_boxes) return "null";
  TileRelation const relation(plan.pipeline, edge);
  auto const rank =
      static_cast<int>(plan.pipeline.stages[static_cast<std::size_t>(edge.producer)].grid.size());
  std::string out = "[";
  std::vector<TileRelation::Box> found;
  for (std::int64_t tile = 0; tile < consumer.tiles(); ++tile) {
    found.clear();
    relation.boxes_of(tile, found);
    out += (tile > 0 ? "," : "") + array(found, [&](TileRelation::Box const& box) {
             std::vector<int> ends;
             for (int i = 0; i < rank; ++i) ends.push_back(box.begin[i]), ends.push_back(box.end[i]);
             return fmt::format("[{}]", fmt::join(ends, ","));
           });
  }
  return out + "]";
}

std::string dependences(Plan const& plan) {
  std::size_t d = 0;
  return array(plan.pipeline.dependences, [&](Dependence const& edge) {
    return fmt::format("{{\"consumer\":{},\"producer\":{},\"boxes\":{}}}", edge.consumer, edge.producer,
                       boxes(plan, d++));
  });
}

}  // namespace

std::string tile_viewer(Plan const& plan, Timeline const& timeline) {
  if (!fits(plan, timeline)) return "";
  return fmt::format(
      "<details class=\"tiles\" hidden><summary>Tiles, one by one</summary>\n<p class=\"soft\">Click a tile, "
      "or n and p "
      "in turn: what it is, and lines to the tiles that it reads. +, − and the wheel with Ctrl zoom, arrows "
      "and dragging move, 0 shows all.</p>\n<output aria-live=\"polite\">No tile chosen.</output>\n"
      "<canvas tabindex=\"0\" role=\"application\" aria-label=\"{} tiles over time\"></canvas>\n"
      "<script "
      "type=\"application/json\">{{\"end\":{},\"stages\":{},\"tiles\":{},\"dependences\":{}}}</script>"
      "</details>\n",
      timeline.tiles.size(), timeline.end / 1000, stages(timeline), tiles(timeline), dependences(plan));
}

std::string tile_viewer_script() {
  return fmt::format("<script type=\"module\">\n{}</script>\n", report_scripts().front().text);
}

}  // namespace tessera::report
