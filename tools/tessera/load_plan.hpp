// SPDX-License-Identifier: Apache-2.0
// Plans from files. Nothing that a file says is taken for true: every subcommand that gets a plan gets it
// here, read, held against its machine, and proved again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "session.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::cli {

/// What the plan is wanted for.
struct PlanUse {
  std::string machine = {};       ///< another machine than the plan's own: a shipped profile or a file
  bool becomes_a_header = false;  ///< who includes it has no values of a file: it must finish on the shipped
                                  ///< profile, too
  bool quotes_times = false;      ///< what it says that it takes is shown: held against its simulation
  bool is_explored = false;       ///< its schedules are tried out, so that it may get stuck
};

/// A plan that was proved again, and the machine that it is for: its own by the values that it brings, else
/// the shipped profile of that name; or the one asked for.
struct LoadedPlan {
  Plan plan;
  MachineProfile machine;
  Diagnostics warnings;  ///< E0266: a profile of the plan's name has other values than the plan was made
                         ///< with; E0267: it does not take the times that it quotes
};

/// Refuses what confirm_own() refuses, and as confirm() does what does not hold on the machine asked for.
/// `path` is where the plan stands, for diagnostics; empty: in no file.
Expected<LoadedPlan> confirm_plan(Plan plan, std::string const& path, PlanUse const& use = {});

/// The same, and what parse_plan() refuses. Shows the warnings.
Expected<LoadedPlan> load_plan(Session const& session, std::string const& path, PlanUse const& use = {});

/// A file that is a plan or a timeline.
struct PlanOrTimeline {
  std::optional<LoadedPlan> plan;
  std::optional<Timeline> timeline;
};
Expected<PlanOrTimeline> read_plan_or_timeline(std::string_view text, std::string const& path,
                                               PlanUse const& use = {});
Expected<PlanOrTimeline> load_plan_or_timeline(Session const& session, std::string const& path,
                                               PlanUse const& use = {});

}  // namespace tessera::cli
