// SPDX-License-Identifier: Apache-2.0
// Plans and timelines for people and for other tools. Formatting only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../check/check.hpp"
#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"
#include "../timeline.hpp"

namespace tessera {

/// The choice, its waves, time, limiter, proof and the alternatives with reasons; <= 100 columns.
std::string explain(Plan const& plan, int max_alternatives = 8);

/// Chrome trace-event JSON (opens in Perfetto): a track for each SM slot, flow arrows post -> wait.
std::string perfetto_trace(Timeline const& timeline, Plan const* plan = nullptr);

/// stage,tile,split,gpu,sm,slot,started_ns,...: one row per block.
std::string timeline_csv(Timeline const& timeline);
std::string print_timeline(Timeline const& timeline);   ///< JSON, "schema": "tessera.timeline/1"
Expected<Timeline> parse_timeline(std::string_view json, std::string const& file);

/// One page, no outside resources: explanation, drawn timeline, alternatives.
struct ReportEntry {
  Plan plan;
  Timeline timeline;
  Timeline stream_order;    ///< for the picture beside it; empty tiles: left out
};
std::string html_report(std::string const& title, std::vector<ReportEntry> const& entries);

/// A timeline as text, one row per SM slot (for docs and terminals): figure 1 of the paper.
std::string draw(Timeline const& timeline, int columns = 72);

/// What moved between two runs: totals, and per stage start, end, waiting.
std::string diff(Timeline const& before, Timeline const& after);

}  // namespace tessera
