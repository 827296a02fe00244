// SPDX-License-Identifier: Apache-2.0
#include "report/html_tracks.hpp"

#include <algorithm>
#include <vector>

#include "report/html_axes.hpp"
#include "report/html_chart.hpp"
#include "report/text.hpp"
#include "report/tracks.hpp"

namespace tessera::report {
namespace {

constexpr std::size_t k_most_columns = 600;
constexpr int k_strip = 72;
constexpr int k_row = 16;

std::string plot(std::string const& labels, int height, std::string_view label, std::string const& body,
                 std::int64_t scale) {
  return fmt::format("<div class=\"labels\">{}</div><div class=\"plot\">{}{}</svg>{}</div>", labels,
                     svg_head(height, label), body, axis(scale));
}

/// Bytes of each class in so many bins at once that few enough columns are left.
struct Columns {
  std::vector<std::vector<double>> classes;
  std::int64_t width = 1;  ///< ps
  double most = 0;         ///< of all classes together, bytes
};

Columns columns_of(ByteCounter const& counter) {
  auto const classes = counter.classes.size();
  auto const bins = counter.bytes.size() / classes;
  auto const joined = std::max<std::size_t>(1, (bins + k_most_columns - 1) / k_most_columns);
  Columns out;
  out.width = counter.bin * static_cast<std::int64_t>(joined);
  out.classes.assign(classes, std::vector<double>((bins + joined - 1) / joined, 0));
  for (std::size_t b = 0; b < bins; ++b)
    for (std::size_t c = 0; c < classes; ++c)
      out.classes[c][b / joined] += static_cast<double>(counter.bytes[b * classes + c]);
  for (std::size_t b = 0; b < out.classes.front().size(); ++b) {
    double sum = 0;
    for (auto const& values : out.classes) sum += values[b];
    out.most = std::max(out.most, sum);
  }
  return out;
}

std::string strip(Columns const& columns, std::int64_t scale) {
  std::vector<double> base(columns.classes.front().size(), 0);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 1000 {0}\" width=\"100%\" height=\"{0}\" preserveAspectRatio=\"none\">", k_strip);
  auto const width = 10 * share(columns.width, scale);
  for (std::size_t c = 0; c < columns.classes.size(); ++c) {
    std::string path;
    for (std::size_t b = 0; b < base.size(); ++b) {
      auto const bytes = columns.classes[c][b];
      if (bytes <= 0) continue;
      auto const height = k_strip * bytes / columns.most;
      append(path, "M{:.2f} {:.1f}h{:.2f}v{:.1f}h-{:.2f}z", width * static_cast<double>(b),
             k_strip - base[b] - height, width, height, width);
      base[b] += height;
    }
    if (!path.empty()) append(out, "<path class=\"s{}\" d=\"{}\"/>", c % k_stage_colours, path);
  }
  return out + "</svg>";
}

}  // namespace

std::string tracks_chart(Timeline const& timeline, std::int64_t scale) {
  if (timeline.tracks.empty()) return "";
  int const height = k_row * static_cast<int>(timeline.tracks.size());
  std::string labels, body = grid_lines(scale, height);
  for (auto const& track : timeline.tracks)
    append(labels, "<span style=\"height:{}px\">{}</span>", k_row, html(track_name(timeline, track)));
  for (auto const& span : timeline.spans) {
    int const y = k_row * span.track + 1;
    append(body, "<g><title>{}: {} to {}, {:.3g} MB in {}</title>", html(span_name(timeline, span)),
           us_of(span.from), us_of(span.to), static_cast<double>(span.bytes) * 1e-6,
           plural(span.transfers, "transfer"));
    rect(body, fmt::format("s{}", span.item % k_stage_colours), span.from, span.to, scale, y, k_row - 2);
    body += "</g>";
  }
  return plot(labels, height, "copy engines and links", body, scale);
}

std::string counters_chart(Timeline const& timeline, std::int64_t scale) {
  std::string out;
  for (auto const& counter : timeline.counters) {
    if (counter.bytes.empty()) continue;
    auto const columns = columns_of(counter);
    if (columns.most <= 0) continue;
    auto const name = timeline.gpus > 1 ? fmt::format("GPU {} {}", counter.gpu, counter.name) : counter.name;
    auto const peak = 1000 * columns.most / static_cast<double>(columns.width);
    out += plot(
        fmt::format("<span style=\"height:{}px\">{}, up to {:.0f} GB/s</span>", k_strip, html(name), peak),
        k_strip, html(name), strip(columns, scale) + grid_lines(scale, k_strip), scale);
  }
  return out;
}

std::string counter_legend(Timeline const& timeline) {
  std::vector<std::vector<std::string>> seen;
  std::string out;
  for (auto const& counter : timeline.counters) {
    if (std::find(seen.begin(), seen.end(), counter.classes) != seen.end()) continue;
    seen.push_back(counter.classes);
    append(out, "<ul class=\"legend\"><li class=\"soft\">{}:</li>", html(counter.name));
    for (std::size_t c = 0; c < counter.classes.size(); ++c)
      append(out,
             "<li><svg width=\"14\" height=\"14\"><rect class=\"s{}\" width=\"14\" "
             "height=\"14\"/></svg>{}</li>",
             c % k_stage_colours, html(counter.classes[c]));
    out += "</ul>\n";
  }
  return out;
}

}  // namespace tessera::report
