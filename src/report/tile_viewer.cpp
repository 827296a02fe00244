// SPDX-License-Identifier: Apache-2.0
#include "report/tile_viewer.hpp"

#include <fmt/format.h>

#include <vector>

#include "report/critical_path.hpp"
#include "report/slots.hpp"
#include "report/text.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/report/json_text.hpp"
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

void write_stages(JsonWriter& json, Timeline const& timeline) {
  auto const at_once = most_at_once(timeline);
  json.key("stages").begin_array();
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    auto const& stage = timeline.stages[s];
    json.begin_object().member("name", stage.name).key("extent").begin_array();
    for (auto const size : stage.extent) json.value(size);
    json.end_array().member("splits", stage.splits).member("at_once", at_once[s]).end_object();
  }
  json.end_array();
}

/// Of each [stage, tile, SM, split, started, waits, ready, ended], in ns.
void write_tiles(JsonWriter& json, Timeline const& timeline) {
  auto const ns = [](std::int64_t ps) { return ps / 1000; };
  json.key("tiles").begin_array();
  for (auto const& tile : timeline.tiles)
    json.raw(fmt::format("[{},{},{},{},{},{},{},{}]", tile.stage, tile.tile, tile.sm, tile.split,
                         ns(tile.started), ns(wait_begin(tile)), ns(tile.ready), ns(tile.posted)));
  json.end_array();
}

/// Of each tile of the consumer the boxes of tiles that it reads; [] where all of the producer is awaited,
/// null where they are too many for a page.
void write_boxes(JsonWriter& json, Plan const& plan, std::size_t d) {
  auto const& edge = plan.pipeline.dependences[d];
  auto const tiles = plan.pipeline.stages[static_cast<std::size_t>(edge.consumer)].tiles();
  if (plan.dependences[d].semaphore_set < 0) {
    json.raw("[]");
    return;
  }
  if (tiles * static_cast<std::int64_t>(edge.accesses.size()) > k_most_boxes) {
    json.raw("null");
    return;
  }
  TileRelation const relation(plan.pipeline, edge);
  auto const rank = plan.pipeline.stages[static_cast<std::size_t>(edge.producer)].grid.size();
  std::vector<TileRelation::Box> found;
  json.begin_array();
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    found.clear();
    relation.boxes_of(tile, found);
    json.begin_array();
    for (auto const& box : found) {
      json.begin_array();
      for (std::size_t i = 0; i < rank; ++i) json.value(box.begin[i]).value(box.end[i]);
      json.end_array();
    }
    json.end_array();
  }
  json.end_array();
}

/// As text of a script element, which a name cannot end.
std::string data_of(Plan const& plan, Timeline const& timeline) {
  JsonWriter json;
  json.begin_object().member("end", timeline.end / 1000);
  write_stages(json, timeline);
  write_tiles(json, timeline);
  json.key("dependences").begin_array();
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    auto const& edge = plan.pipeline.dependences[d];
    json.begin_object().member("consumer", edge.consumer).member("producer", edge.producer).key("boxes");
    write_boxes(json, plan, d);
    json.end_object();
  }
  auto text = json.end_array().end_object().text();
  for (auto at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
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
      "<script type=\"application/json\">{}</script></details>\n",
      timeline.tiles.size(), data_of(plan, timeline));
}

std::string tile_viewer_script() {
  return fmt::format("<script type=\"module\">\n{}</script>\n", report_scripts().front().text);
}

}  // namespace tessera::report
