// SPDX-License-Identifier: Apache-2.0
// Where a simulated timeline goes: files, and the screen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "session.hpp"
#include "tessera/diagnostic.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::cli {

/// Names of files; empty: not asked for.
struct TimelineOutputs {
  std::string output, trace, csv, html;
  bool draw = false;
};

/// Of all stages.
std::int64_t blocks_of(Pipeline const& pipeline);

/// E0504: so many blocks are not written row by row, each in every one of so many outputs. Ask before the
/// timeline is made.
Expected<void> refuse_long_timeline(std::string const& name, std::int64_t blocks, int outputs);

/// E0504: a page of so many blocks, simulated so many times for it. Ask before that.
Expected<void> refuse_large_page(std::string const& name, std::int64_t blocks, int simulations);

/// Writes what is asked for and prints the summary, or the timeline as JSON. `page` makes the --html page;
/// `plan`, where there is one, the arrows of the trace; `note` goes below the summary. Returns the exit code.
int put_out(Session const& session, Timeline const& timeline, TimelineOutputs const& outputs,
            std::function<std::string()> const& page, Plan const* plan = nullptr,
            std::string const& note = {});

}  // namespace tessera::cli
