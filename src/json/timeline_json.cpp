// SPDX-License-Identifier: Apache-2.0
// Timelines as JSON. Blocks are rows of a table whose columns are named once: a hundred thousand of them fit
// in a few megabytes. Times are integer picoseconds, so that a round trip is exact.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "json/json_text.hpp"
#include "json/reader.hpp"
#include "json/timeline_rows.hpp"
#include "json/timeline_tracks.hpp"
#include "tessera/timeline_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.timeline/1";
constexpr json::Codes k_codes{"E0701", "E0702", "E0703", "E0704"};
constexpr char const* k_other_version = "E0705";
constexpr char const* k_contradiction = "E0706";

// About 106 days; far from overflow in sums of a million blocks' times.
constexpr std::int64_t k_longest_ps = std::int64_t{1} << 53;
constexpr std::int64_t k_most_blocks = std::int64_t{1} << 31;
constexpr std::int64_t k_most_sms = 1 << 16;
// As many as a plan has (k_most_stages of check); reports name stages by searching for them.
constexpr std::size_t k_most_stages = 4096;

constexpr std::array<char const*, 16> k_columns{
    "stage",           "split",     "tile",      "gpu",       "sm",         "slot",        "started_ps",
    "ready_ps",        "loaded_ps", "stored_ps", "posted_ps", "waiting_ps", "operands_ps", "matrix_unit_ps",
    "before_ready_ps", "stores_ps"};
// Of a timeline that tells no causes of waits apart, the last four are left out.
constexpr std::size_t k_columns_without_causes = 12;

bool tells_causes(Timeline const& timeline) {
  return std::any_of(timeline.tiles.begin(), timeline.tiles.end(),
                     [](auto const& tile) { return tile.causes != WaitCauses{}; });
}

nlohmann::ordered_json row_of(TileRecord const& tile, bool with_causes) {
  nlohmann::ordered_json row = {tile.stage,  tile.split,  tile.tile,    tile.gpu,
                                tile.sm,     tile.slot,   tile.started, tile.ready,
                                tile.loaded, tile.stored, tile.posted,  tile.waiting};
  if (with_causes)
    for (auto const ps :
         {tile.causes.operands, tile.causes.matrix_unit, tile.causes.before_ready, tile.causes.stores})
      row.push_back(ps);
  return row;
}

StageSpan read_stage(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a stage");
  StageSpan stage;
  stage.name = reader.string("name");
  reader.rename(fmt::format("stage \"{}\"", stage.name));
  stage.first_start = reader.integer("first_start_ps", 0, k_longest_ps);
  stage.last_end = reader.integer("last_end_ps", 0, k_longest_ps);
  stage.tiles = reader.integer("tiles", 1, k_most_blocks);
  stage.splits = static_cast<int>(reader.integer_or("splits", 1, 1, 1 << 16));
  stage.variant = reader.string_or("variant", "");
  std::int64_t volume = 1;
  for (auto const& item : reader.array("extent")) {
    stage.extent.push_back(json::integer_item(document, item, 1, k_most_blocks));
    volume = volume > k_most_blocks ? volume : volume * stage.extent.back();
  }
  if (volume != stage.tiles)
    document.report(
        node, k_contradiction,
        fmt::format("stage \"{}\" says {} tiles, but its extents make {}", stage.name, stage.tiles, volume));
  if (stage.first_start > stage.last_end)
    document.report(node, k_contradiction, fmt::format("stage \"{}\" ends before it starts", stage.name));
  reader.finish();
  return stage;
}

void read_stages(Document& document, ObjectReader& root, Timeline& timeline) {
  auto const& stages = root.array("stages");
  if (stages.size() > k_most_stages)
    return document.report(
        *root.find("stages"), k_codes.value,
        fmt::format("a timeline has at most {} stages, not {}", k_most_stages, stages.size()));
  std::set<std::string> names;
  for (auto const& node : stages) {
    timeline.stages.push_back(read_stage(document, node));
    auto const& name = timeline.stages.back().name;
    if (name.empty() && !document.failed()) document.report(node, k_codes.value, "a stage has a name");
    if (timeline.stages.back().last_end > timeline.end)
      document.report(node, k_contradiction, fmt::format("stage \"{}\" ends after \"end_ps\"", name));
    if (!names.insert(name).second)
      document.report(node, k_contradiction, fmt::format("two stages are called \"{}\"", name));
  }
}

/// What is wrong with a record, or nothing.
std::string contradiction(Timeline const& timeline, TileRecord const& tile) {
  if (static_cast<std::size_t>(tile.stage) >= timeline.stages.size())
    return fmt::format("stage {} of {}", tile.stage, timeline.stages.size());
  auto const& stage = timeline.stages[static_cast<std::size_t>(tile.stage)];
  if (tile.tile >= stage.tiles)
    return fmt::format("tile {} of {} in \"{}\"", tile.tile, stage.tiles, stage.name);
  if (tile.split >= stage.splits)
    return fmt::format("split {} of {} in \"{}\"", tile.split, stage.splits, stage.name);
  if (tile.gpu >= timeline.gpus) return fmt::format("GPU {} of {}", tile.gpu, timeline.gpus);
  if (tile.sm >= timeline.sms) return fmt::format("SM {} of {}", tile.sm, timeline.sms);
  if (tile.slot >= timeline.slots_per_sm)
    return fmt::format("slot {} of {}", tile.slot, timeline.slots_per_sm);
  bool const in_order = tile.started <= tile.ready && tile.ready <= tile.loaded &&
                        tile.loaded <= tile.stored && tile.stored <= tile.posted &&
                        tile.posted <= timeline.end;
  if (!in_order) return "times out of order (started <= ready <= loaded <= stored <= posted <= end)";
  if (tile.waiting > tile.loaded - tile.started) return "it waits longer than from started to loaded";
  auto const& causes = tile.causes;
  if (causes != WaitCauses{} && causes.operands + causes.matrix_unit != tile.waiting)
    return "its waits for operands and the matrix unit do not add up to what it waits";
  if (causes.before_ready > std::min(tile.waiting, tile.ready - tile.started))
    return "it waits longer before it is ready than it can";
  if (causes.stores > tile.stored - tile.loaded)
    return "it waits longer for its stores than from loaded to stored";
  return "";
}

bool read_tile(Document& document, Timeline& timeline, Node const& row, std::size_t columns) {
  if (row.items().size() != columns || !row.is(Node::Kind::array)) {
    document.report(row, k_codes.value,
                    fmt::format("a row of \"tiles\" must be an array of {} whole numbers", columns));
    return false;
  }
  std::array<std::int64_t, k_columns.size()> v{};
  for (std::size_t c = 0; c < columns; ++c) {
    v[c] = json::integer_item(document, row.items()[c], 0,
                              c < 2 || (c > 2 && c < 6) ? k_most_sms : k_longest_ps);
    if (document.failed()) return false;
  }
  TileRecord const tile{static_cast<std::int32_t>(v[0]),
                        static_cast<std::int32_t>(v[1]),
                        v[2],
                        static_cast<std::int32_t>(v[3]),
                        static_cast<std::int32_t>(v[4]),
                        static_cast<std::int32_t>(v[5]),
                        v[6],
                        v[7],
                        v[8],
                        v[9],
                        v[10],
                        v[11],
                        {v[12], v[13], v[14], v[15]}};
  if (auto const wrong = contradiction(timeline, tile); !wrong.empty()) {
    document.report(
        row, k_contradiction,
        fmt::format("row {} of \"tiles\" contradicts the rest: {}", timeline.tiles.size(), wrong));
    return false;
  }
  timeline.tiles.push_back(tile);
  return true;
}

/// How many columns a row has.
std::size_t read_columns(Document& document, ObjectReader& root) {
  auto const& names = root.array("tile_columns");
  bool same = names.size() == k_columns.size() || names.size() == k_columns_without_causes;
  for (std::size_t c = 0; same && c < names.size(); ++c) same = names[c].text() == k_columns[c];
  if (!same && !document.failed())
    document.report(root.node(), k_codes.value, "\"tile_columns\" differ from this version's",
                    {fmt::format("expected: {}; the last four may be left out", fmt::join(k_columns, ", "))});
  return names.size();
}

}  // namespace

std::string print_timeline(Timeline const& timeline) {
  nlohmann::ordered_json out;
  out["schema"] = k_schema;
  out["pipeline"] = timeline.pipeline;
  out["machine"] = timeline.machine;
  out["mechanism"] = timeline.mechanism;
  out["measured"] = timeline.measured;
  if (timeline.by_launch) out["by_launch"] = true;
  out["end_ps"] = timeline.end;
  out["gpus"] = timeline.gpus;
  out["sms"] = timeline.sms;
  out["slots_per_sm"] = timeline.slots_per_sm;
  out["busy"] = timeline.busy;
  out["waves"] = timeline.waves;
  out["dram_bytes"] = timeline.dram_bytes;
  out["dram_busy"] = timeline.dram_busy;
  out["stages"] = nlohmann::ordered_json::array();
  for (auto const& stage : timeline.stages) {
    nlohmann::ordered_json one{{"name", stage.name},
                               {"first_start_ps", stage.first_start},
                               {"last_end_ps", stage.last_end},
                               {"tiles", stage.tiles},
                               {"splits", stage.splits},
                               {"extent", stage.extent}};
    if (!stage.variant.empty()) one["variant"] = stage.variant;
    out["stages"].push_back(std::move(one));
  }
  bool const with_causes = tells_causes(timeline);
  out["tile_columns"] = k_columns;
  if (!with_causes)
    out["tile_columns"].erase(out["tile_columns"].begin() + k_columns_without_causes,
                              out["tile_columns"].end());
  out["tiles"] = nlohmann::ordered_json::array();
  for (auto const& tile : timeline.tiles) out["tiles"].push_back(row_of(tile, with_causes));
  json::print_tracks(timeline, out);
  return json::pretty(out);
}

Expected<Timeline> parse_timeline(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (!document->failed() && schema != k_schema)
    document->report(document->root(), k_other_version,
                     fmt::format("schema \"{}\" is not {}", schema.substr(0, 60), k_schema));
  if (document->failed()) return document->refusal();

  Timeline timeline;
  timeline.pipeline = root.string("pipeline");
  timeline.machine = root.string("machine");
  timeline.mechanism = root.string("mechanism");
  timeline.measured = root.boolean_or("measured", false);
  timeline.by_launch = root.boolean_or("by_launch", false);
  timeline.end = root.integer("end_ps", 0, k_longest_ps);
  timeline.gpus = static_cast<int>(root.integer_or("gpus", 1, 1, 1024));
  timeline.sms = static_cast<int>(root.integer("sms", 1, k_most_sms));
  timeline.slots_per_sm = static_cast<int>(root.integer_or("slots_per_sm", 1, 1, 64));
  timeline.busy = root.number("busy", 0, 1.000001);
  timeline.waves = root.number("waves", 0);
  timeline.dram_bytes = root.number_or("dram_bytes", 0, 0);
  timeline.dram_busy = root.number_or("dram_busy", 0, 0, 1.000001);
  read_stages(*document, root, timeline);
  auto const columns = read_columns(*document, root);
  auto const& rows = root.array("tiles");
  json::read_tracks(*document, root, timeline, k_contradiction);
  root.finish();
  if (document->failed()) return document->refusal();
  timeline.tiles.reserve(rows.size());
  for (auto const& row : rows)
    if (!read_tile(*document, timeline, row, columns)) return document->refusal();
  json::check_rows(*document, root, rows, timeline, k_contradiction);
  if (document->failed()) return document->refusal();
  return timeline;
}

}  // namespace tessera
