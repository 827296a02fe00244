// SPDX-License-Identifier: Apache-2.0
#include "json/timeline_tracks.hpp"

#include <fmt/format.h>

#include <array>
#include <tuple>

namespace tessera::json {
namespace {

constexpr std::array<char const*, 6> k_columns{"track", "item", "from_ps", "to_ps", "transfers", "bytes"};
constexpr std::int64_t k_most = std::int64_t{1} << 53;
constexpr std::size_t k_most_classes = 16;

std::string contradiction_of(Timeline const& timeline, TrackSpan const& span) {
  if (span.track >= static_cast<std::int64_t>(timeline.tracks.size()))
    return fmt::format("track {} of {}", span.track, timeline.tracks.size());
  if (span.from > span.to || span.to > timeline.end) return "times out of order (from <= to <= end)";
  if (timeline.spans.empty()) return "";
  auto const& last = timeline.spans.back();
  if (std::tie(span.track, span.from) < std::tie(last.track, last.from)) return "spans are out of order";
  if (span.track == last.track && span.from < last.to) return "spans of one track overlap";
  return "";
}

void read_spans(Document& document, ObjectReader& root, Timeline& timeline, char const* contradiction) {
  auto const& names = root.array("span_columns");
  bool same = names.size() == k_columns.size();
  for (std::size_t c = 0; same && c < names.size(); ++c) same = names[c].text() == k_columns[c];
  if (!same && !document.failed())
    document.report(root.node(), document.codes().value, "\"span_columns\" differ from this version's",
                    {fmt::format("expected: {}", fmt::join(k_columns, ", "))});
  for (auto const& row : root.array("spans")) {
    if (document.failed()) return;
    if (!row.is(Node::Kind::array) || row.items().size() != k_columns.size())
      return document.report(
          row, document.codes().value,
          fmt::format("a row of \"spans\" must be an array of {} whole numbers", k_columns.size()));
    std::array<std::int64_t, k_columns.size()> v{};
    for (std::size_t c = 0; c < v.size(); ++c)
      v[c] = integer_item(document, row.items()[c], 0, c == 0 ? 1 << 16 : k_most);
    TrackSpan const span{static_cast<std::int32_t>(v[0]), v[1], v[2], v[3], v[4], v[5]};
    if (document.failed()) return;
    if (auto const wrong = contradiction_of(timeline, span); !wrong.empty())
      return document.report(
          row, contradiction,
          fmt::format("row {} of \"spans\" contradicts the rest: {}", timeline.spans.size(), wrong));
    timeline.spans.push_back(span);
  }
}

ByteCounter read_counter(Document& document, Node const& node, int gpus, char const* contradiction) {
  ObjectReader reader(document, node, "a counter");
  ByteCounter counter;
  counter.name = reader.string("name");
  counter.gpu = static_cast<int>(reader.integer_or("gpu", 0, 0, gpus - 1));
  counter.bin = reader.integer("bin_ps", 1, k_most);
  for (auto const& name : reader.array("classes")) {
    if (!name.is(Node::Kind::string))
      document.report(name, document.codes().value, "a class of a counter must be a string");
    counter.classes.push_back(name.text());
  }
  for (auto const& bytes : reader.array("bytes"))
    counter.bytes.push_back(integer_item(document, bytes, 0, k_most));
  reader.finish();
  if (document.failed()) return counter;
  if (counter.classes.empty() || counter.classes.size() > k_most_classes ||
      counter.bytes.size() % counter.classes.size() != 0)
    document.report(node, contradiction,
                    fmt::format("counter \"{}\" has {} values of {} classes", counter.name,
                                counter.bytes.size(), counter.classes.size()));
  return counter;
}

}  // namespace

void print_tracks(Timeline const& timeline, nlohmann::ordered_json& out) {
  if (!timeline.tracks.empty()) {
    out["tracks"] = nlohmann::ordered_json::array();
    for (auto const& track : timeline.tracks)
      out["tracks"].push_back({{"name", track.name}, {"item", track.item}, {"gpu", track.gpu}});
    out["span_columns"] = k_columns;
    out["spans"] = nlohmann::ordered_json::array();
    for (auto const& span : timeline.spans)
      out["spans"].push_back({span.track, span.item, span.from, span.to, span.transfers, span.bytes});
  }
  if (timeline.counters.empty()) return;
  out["counters"] = nlohmann::ordered_json::array();
  for (auto const& counter : timeline.counters)
    out["counters"].push_back({{"name", counter.name},
                               {"gpu", counter.gpu},
                               {"bin_ps", counter.bin},
                               {"classes", counter.classes},
                               {"bytes", counter.bytes}});
}

void read_tracks(Document& document, ObjectReader& root, Timeline& timeline, char const* contradiction) {
  for (auto const& node : root.array_or("tracks")) {
    ObjectReader reader(document, node, "a track");
    Track track;
    track.name = reader.string("name");
    track.item = reader.string_or("item", "");
    track.gpu = static_cast<int>(reader.integer_or("gpu", 0, 0, timeline.gpus - 1));
    reader.finish();
    timeline.tracks.push_back(std::move(track));
  }
  if (!timeline.tracks.empty()) read_spans(document, root, timeline, contradiction);
  for (auto const& node : root.array_or("counters"))
    timeline.counters.push_back(read_counter(document, node, timeline.gpus, contradiction));
}

}  // namespace tessera::json
