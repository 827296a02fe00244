// SPDX-License-Identifier: Apache-2.0
// The studies of tessera simulate --study.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "session.hpp"
#include "tessera/overlap/study.hpp"

namespace tessera::cli {

struct StudyArguments {
  std::string study;                ///< "t3" or "cusync"
  std::string machine;              ///< empty: the study's own
  std::vector<std::string> models;  ///< empty: the study's own
  std::optional<std::int64_t> tokens;
  std::optional<int> tensor_parallel;
  std::vector<std::string> collectives;  ///< t3: only these, no figures
  std::vector<int> splits;               ///< t3: only split-K, no figures
  bool quick = false;                    ///< without the sweep
  std::string output, csv, html;
};

/// T3's study of those models on this machine, on one thread.
Expected<OverlapStudySettings> overlap_settings(StudyArguments const& arguments,
                                                MachineProfile const& machine);

/// One of the study's models, or one whose config.json says how wide it is (E0914), as the arguments size it.
Expected<TransformerModel> model_of(std::string const& name, StudyArguments const& arguments);

/// E0916 for options of T3's study that another one, or --quick beside them, would pass over. `what` is what
/// is simulated, in words; empty for T3's study.
Expected<void> check_study_options(StudyArguments const& arguments, std::string const& what);

int run_study(Session const& session, StudyArguments const& arguments);

}  // namespace tessera::cli
