// SPDX-License-Identifier: Apache-2.0
#include "timeline_outputs.hpp"

#include <fmt/format.h>

#include "files.hpp"
#include "tessera/report/report.hpp"

namespace tessera::cli {

std::int64_t blocks_of(Pipeline const& pipeline) {
  std::int64_t blocks = 0;
  for (auto const& stage : pipeline.stages) blocks += stage.blocks();
  return blocks;
}

Expected<void> refuse_long_timeline(std::string const& name, std::int64_t blocks, int outputs) {
  // Measured: a trace has some 470 bytes for each block and takes 1800 of memory while it is made; a JSON
  // timeline of this many is read again in 230 MiB.
  constexpr std::int64_t k_most_rows = 1 << 18;
  constexpr std::int64_t k_bytes_made = 1800;
  auto const rows = blocks * outputs;
  if (rows <= k_most_rows) return {};
  return tl::make_unexpected(complaint(
      "E0504",
      fmt::format(
          "a timeline of {}, {} blocks row by row{}, would take some {} MiB; at most {} rows are written",
          name, blocks, outputs > 1 ? fmt::format(" in {} outputs", outputs) : "", rows * k_bytes_made >> 20,
          k_most_rows),
      outputs > 1 && blocks <= k_most_rows ? "write one of --trace, --csv and JSON of the timeline at a time"
                                           : "leave --trace, --csv and JSON of the timeline out, or take a "
                                             "smaller problem of the same shape"));
}

Expected<void> refuse_large_page(std::string const& name, std::int64_t blocks, int simulations) {
  // Simulated with all that is drawn of it, a block takes some 3 us of one core and 200 bytes.
  constexpr std::int64_t k_most_simulated = 3 << 17;
  auto const most = k_most_simulated / simulations;
  if (blocks <= most) return {};
  return tl::make_unexpected(
      complaint("E0504",
                fmt::format("a page of {} would take {} blocks{}; at most {} are drawn", name, blocks,
                            simulations > 1 ? ", simulated anew in the plan and in stream order" : "", most),
                "leave --html out, or take a smaller problem of the same shape"));
}

int put_out(Session const& session, Timeline const& timeline, TimelineOutputs const& outputs,
            std::function<std::string()> const& page, Plan const* plan, std::string const& note) {
  int const row_by_row =
      !outputs.output.empty() + !outputs.trace.empty() + !outputs.csv.empty() + session.json;
  if (auto const few = refuse_long_timeline(timeline.pipeline, std::ssize(timeline.tiles), row_by_row); !few)
    return session.fail(few.error());
  std::vector<OutputFile> files;
  if (!outputs.output.empty()) files.push_back({outputs.output, print_timeline(timeline)});
  if (!outputs.trace.empty()) files.push_back({outputs.trace, perfetto_trace(timeline, plan)});
  if (!outputs.csv.empty()) files.push_back({outputs.csv, timeline_csv(timeline)});
  if (!outputs.html.empty()) files.push_back({outputs.html, page()});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  if (session.json)
    session.print(print_timeline(timeline));
  else
    session.print(summary(timeline) + (note.empty() ? "" : "\n" + note) +
                  (outputs.draw ? "\n" + draw(timeline) : ""));
  return k_ok;
}

}  // namespace tessera::cli
