// SPDX-License-Identifier: Apache-2.0
// Plans and timelines for people and for other tools. Formatting only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../check/check.hpp"
#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"
#include "../simulate/simulate.hpp"
#include "../timeline.hpp"
#include "../timeline_json.hpp"

namespace tessera {

/// The choice, its waves, time, limiter, proof and the alternatives with reasons; <= 100 columns.
std::string explain(Plan const& plan, int max_alternatives = 8);

/// One row per plan: size, blocks, waves, mechanism, policy, predicted and stream-order time, gain, limiter.
/// Precondition for both: the plan is consistent (choose() made it or parse_plan() accepted it).
std::string explain_table(std::vector<Plan> const& plans);

/// Which clock the plan's time is for, a line; empty where the plan alone takes as long. `alone`: by
/// simulate_alone() on the plan's machine.
std::string clock_of_candidates(Plan const& plan, Turn const& alone);
/// The same of that run's time.
std::string clock_of_run(Plan const& plan, Turn const& alone);

/// Stages and dependences as a Graphviz graph.
std::string dot(Plan const& plan);

/// What check() found: stages, exact counts of each dependence, buffer reuse, warnings.
std::string check_text(CheckedPipeline const& checked);
std::string check_json(CheckedPipeline const& checked);         ///< "schema": "tessera.check/1"
std::string print_diagnostics(Diagnostics const& diagnostics);  ///< "schema": "tessera.diagnostics/1"

/// A run in a few lines: total, waves, busy share, one row per stage.
std::string summary(Timeline const& timeline);

/// Chrome trace-event JSON (opens in Perfetto): a track for each SM slot, flow arrows post -> wait.
/// Tracks follow the SMs, counters are rates in GB/s. Arrows need the plan; at most 1,000 are drawn, for the
/// longest waits. Times are rounded to whole nanoseconds, in which Perfetto counts. One event per line.
std::string perfetto_trace(Timeline const& timeline, Plan const* plan = nullptr);

/// stage,tile,split,gpu,sm,slot,started_ns,...: one row per block, then one per span of a track, with the
/// track's name as stage and no SM. Counters are left to the trace and to the timeline's JSON.
std::string timeline_csv(Timeline const& timeline);

/// One page, no outside resources: explanation, drawn timeline, alternatives. Reads well on a phone.
struct ReportEntry {
  Plan plan;
  Timeline timeline;
  Timeline stream_order;   ///< for the picture beside it; empty tiles: left out
  Timeline measured = {};  ///< the same plan on a GPU; no stages: left out
};

/// `notes` are shown at the top: what the figures assume (a provisional machine profile, for example).
std::string html_report(std::string const& title, std::vector<ReportEntry> const& entries,
                        std::vector<std::string> const& notes = {});

/// The same of one plan, or of a timeline, as an element of somebody else's page (a notebook): its styles are
/// those of its class alone, and details are folded. No script, no outside resource.
std::string html_fragment(ReportEntry const& entry, std::vector<std::string> const& notes = {});
std::string html_fragment(Timeline const& timeline);

/// One page of a timeline that no plan stands behind: its blocks, tracks and counters drawn, its sums.
std::string timeline_html(Timeline const& timeline, std::vector<std::string> const& notes = {});

/// A timeline as text, one row per SM slot (for docs and terminals): figure 1 of the paper. At most 48 rows
/// of SMs, and all tracks. Counters are left out.
std::string draw(Timeline const& timeline, int columns = 72);

/// What moved between two runs: totals, and per stage start, end, waiting, and its variant where it changed.
/// Of runs that tell what blocks waited for also where a stage's time went and which of the boundaries
/// between its blocks grew; of runs with tracks, when each was busy.
std::string diff(Timeline const& before, Timeline const& after);

}  // namespace tessera
