// SPDX-License-Identifier: Apache-2.0
#include "report/html_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/html_axes.hpp"
#include "report/html_tracks.hpp"
#include "report/slots.hpp"
#include "report/text.hpp"

namespace tessera::report {
namespace {

constexpr std::size_t k_exact_rows = 40;
constexpr std::size_t k_exact_blocks = 3000;
constexpr int k_most_groups = 33;
constexpr int k_bins = 240;

std::string timeline_label(Timeline const& timeline) {
  return html(fmt::format("{} on {} SMs, {}", timeline.pipeline.empty() ? "blocks" : timeline.pipeline,
                          timeline.sms * std::max(1, timeline.gpus), us_of(timeline.end)));
}

/// Every block as it was: setting up, waiting, working, storing.
std::string exact(Timeline const& timeline, std::vector<Slot> const& slots, std::int64_t scale) {
  int const row = slots.size() <= 12 ? 26 : 16;
  int const height = row * static_cast<int>(slots.size());
  std::string labels;
  std::string body = grid_lines(scale, height);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    append(labels, "<span style=\"height:{}px\">{}</span>", row, slot_name(timeline, slots[s]));
    int const y = row * static_cast<int>(s) + 1;
    for (auto const* tile : slots[s].tiles) {
      auto const& span = timeline.stages[static_cast<std::size_t>(tile->stage)];
      int const colour = tile->stage % k_stage_colours;
      auto const name = html(fmt::format("{}({})", span.name, coordinates(span, *tile)));
      append(body, "<g><title>{}: {} to {}, waiting {}</title>", name, us_of(tile->started),
             us_of(tile->posted), us_of(tile->waiting));
      auto const waited = wait_begin(*tile);
      rect(body, fmt::format("s{} set", colour), tile->started, waited, scale, y, row - 2);
      rect(body, fmt::format("w{}", colour), waited, tile->ready, scale, y, row - 2);
      rect(body, fmt::format("s{}", colour), tile->ready, tile->loaded, scale, y, row - 2);
      auto const blocked = store_wait_begin(*tile);
      rect(body, fmt::format("s{} store", colour), tile->loaded, tile->posted, scale, y, row - 2);
      rect(body, "gap", blocked, tile->stored, scale, y, row - 2);
      rect(body, fmt::format("w{}", colour), blocked, tile->stored, scale, y, row - 2);
      rect(body, "edge", tile->started, tile->posted, scale, y, row - 2);
      bool const roomy = share(tile->posted - tile->ready, scale) > 6 && row > 20;
      if (roomy)
        append(body, "<text x=\"{:.2f}%\" y=\"{}\">{}</text>",
               share(tile->ready + (tile->posted - tile->ready) / 2, scale), y + row / 2 + 3,
               html(coordinates(span, *tile)));
      body += "</g>";
    }
  }
  return fmt::format("<div class=\"labels\">{}</div><div class=\"plot\">{}{}</svg>{}</div>", labels,
                     svg_head(height, timeline_label(timeline)), body, axis(scale));
}

/// SM time of one row of the picture, by layer (stage working, stage waiting) and time bin.
struct Band {
  std::vector<std::vector<double>> layers;
  double capacity = 0;  ///< picoseconds of SMs in one bin
};

/// `part`: of an SM.
void add(std::vector<double>& bins, std::int64_t from, std::int64_t to, double bin_ps, double part) {
  if (to <= from || bin_ps <= 0) return;
  auto const begin = static_cast<double>(from);
  auto const end = static_cast<double>(to);
  auto const first = static_cast<std::size_t>(begin / bin_ps);
  for (std::size_t b = first; b < bins.size() && static_cast<double>(b) * bin_ps < end; ++b)
    bins[b] += part * std::max(0.0, std::min(end, static_cast<double>(b + 1) * bin_ps) -
                                        std::max(begin, static_cast<double>(b) * bin_ps));
}

/// Stages that are resident together share the SM, where they would come to more than one.
void fit(Band& band) {
  for (std::size_t b = 0; b < k_bins; ++b) {
    double sum = 0;
    for (auto const& layer : band.layers) sum += layer[b];
    if (sum <= band.capacity) continue;
    for (auto& layer : band.layers) layer[b] *= band.capacity / sum;
  }
}

/// The layers stacked from the bottom, as steps; runs of equal bins become one rectangle.
std::string stacked(Band const& band, double y, double height) {
  std::string out;
  std::vector<double> base(k_bins, 0);
  for (std::size_t layer = 0; layer < band.layers.size(); ++layer) {
    std::string path;
    auto const& bins = band.layers[layer];
    auto const top = [&](std::size_t b) {
      return std::min(height, std::round((base[b] + bins[b] / band.capacity * height) * 2) / 2);
    };
    for (std::size_t b = 0; b < k_bins;) {
      double const low = base[b];
      double const high = top(b);
      std::size_t end = b + 1;
      while (end < k_bins && base[end] == low && top(end) == high) ++end;
      if (high > low)
        append(path, "M{} {:g}h{}v{:g}h-{}z", b, y + height - high, end - b, high - low, end - b);
      b = end;
    }
    for (std::size_t b = 0; b < k_bins; ++b) base[b] = top(b);
    auto const colour = layer / 2 % k_stage_colours;
    if (!path.empty()) append(out, "<path class=\"{}{}\" d=\"{}\"/>", layer % 2 ? 'w' : 's', colour, path);
  }
  return out;
}

/// Many SMs: one band for the whole machine, then one per group of neighbouring SMs. Heights are shares of an
/// SM: n blocks that fill one together have an n-th each.
std::string aggregated(Timeline const& timeline, std::int64_t scale) {
  int const sms = std::max(1, timeline.sms * std::max(1, timeline.gpus));
  int const group = (sms + k_most_groups - 1) / k_most_groups;
  int const groups = (sms + group - 1) / group;
  double const bin_ps = static_cast<double>(scale) / k_bins;
  auto const at_once = most_at_once(timeline);
  std::size_t const layers = 2 * timeline.stages.size();
  auto const band = [&](int members) {
    return Band{std::vector(layers, std::vector<double>(k_bins, 0)), bin_ps * members};
  };
  std::vector<Band> bands{band(sms)};
  for (int g = 0; g < groups; ++g) bands.push_back(band(std::min(group, sms - g * group)));
  for (auto const& tile : timeline.tiles) {
    int const place = tile.gpu * timeline.sms + tile.sm;
    auto const layer = 2 * static_cast<std::size_t>(tile.stage);
    auto const waited = wait_begin(tile);
    auto const blocked = store_wait_begin(tile);
    double const part = 1.0 / at_once[static_cast<std::size_t>(tile.stage)];
    for (auto* into : {&bands[0], &bands[1 + static_cast<std::size_t>(place / group)]}) {
      auto const put = [&](std::size_t to, std::int64_t from, std::int64_t end) {
        add(into->layers[to], from, end, bin_ps, part);
      };
      put(layer, tile.started, waited);
      put(layer + 1, waited, tile.ready);
      put(layer, tile.ready, blocked);
      put(layer + 1, blocked, tile.stored);
      put(layer, tile.stored, tile.posted);
    }
  }
  for (auto& one : bands) fit(one);
  int const whole = 72;
  int const gap = 8;
  int const row = 12;
  int const height = whole + gap + row * groups;
  std::string labels = fmt::format("<span style=\"height:{}px\">all {} SMs</span>", whole + gap, sms);
  std::string body;
  for (int g = 0; g <= groups; ++g) {
    double const y = g == 0 ? 0 : whole + gap + row * (g - 1);
    body += stacked(bands[static_cast<std::size_t>(g)], y, g == 0 ? whole : row - 2);
    if (g == 0) continue;
    int const first = (g - 1) * group;
    int const last = std::min(sms, first + group) - 1;
    append(labels, "<span style=\"height:{}px\">{}</span>", row,
           last > first ? fmt::format("SM {}-{}", first, last) : fmt::format("SM {}", first));
  }
  return fmt::format(
      "<div class=\"labels\">{}</div><div class=\"plot\">{}<svg viewBox=\"0 0 {} {}\" width=\"100%\" "
      "height=\"{}\" preserveAspectRatio=\"none\">{}</svg>{}</svg>{}</div>",
      labels, svg_head(height, timeline_label(timeline)), k_bins, height, height, body,
      grid_lines(scale, height), axis(scale));
}

/// A row for each stage, from its start to its end.
std::string stage_by_stage(Timeline const& timeline, std::int64_t scale) {
  constexpr int row = 26;
  int const height = row * static_cast<int>(timeline.stages.size());
  std::string labels;
  std::string body = grid_lines(scale, height);
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    auto const& span = timeline.stages[s];
    append(labels, "<span style=\"height:{}px\">{}</span>", row, html(span.name));
    append(body, "<g><title>{}: {} to {}</title>", html(span.name), us_of(span.first_start),
           us_of(span.last_end));
    rect(body, fmt::format("s{}", s % k_stage_colours), span.first_start, span.last_end, scale,
         row * static_cast<int>(s) + 1, row - 2);
    body += "</g>";
  }
  return fmt::format("<div class=\"labels\">{}</div><div class=\"plot\">{}{}</svg>{}</div>", labels,
                     svg_head(height, timeline_label(timeline)), body, axis(scale));
}

}  // namespace

bool drawn_block_by_block(Timeline const& timeline) {
  return timeline.tiles.size() <= k_exact_blocks && slots_of(timeline).size() <= k_exact_rows;
}

std::string chart(Timeline const& timeline, std::int64_t scale) {
  auto const rows = timeline.by_launch               ? stage_by_stage(timeline, scale)
                    : drawn_block_by_block(timeline) ? exact(timeline, slots_of(timeline), scale)
                                                     : aggregated(timeline, scale);
  return "<div class=\"chart\">" + rows + tracks_chart(timeline, scale) + counters_chart(timeline, scale) +
         "</div>";
}

std::string chart_patterns() {
  std::string out = "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>";
  for (int s = 0; s < k_stage_colours; ++s)
    append(out,
           "<pattern id=\"w{0}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
           "patternTransform=\"rotate(45)\">"
           "<rect width=\"5\" height=\"5\" class=\"s{0}\" opacity=\".15\"/><rect width=\"1.6\" height=\"5\" "
           "class=\"s{0}\" "
           "opacity=\".75\"/></pattern>",
           s);
  return out + "</defs></svg>";
}

}  // namespace tessera::report
