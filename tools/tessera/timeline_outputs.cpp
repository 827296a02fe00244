// SPDX-License-Identifier: Apache-2.0
#include "timeline_outputs.hpp"

#include "files.hpp"
#include "tessera/report/report.hpp"

namespace tessera::cli {

int put_out(Session const& session, Timeline const& timeline, TimelineOutputs const& outputs,
            std::function<std::string()> const& page, Plan const* plan) {
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
    session.print(summary(timeline) + (outputs.draw ? "\n" + draw(timeline) : ""));
  return k_ok;
}

}  // namespace tessera::cli
