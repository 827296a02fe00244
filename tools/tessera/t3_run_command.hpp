// SPDX-License-Identifier: Apache-2.0
// One run of T3's study as a timeline: tessera simulate --study t3 --layer ... --config ...
#pragma once

#include <string>

#include "study_command.hpp"
#include "timeline_outputs.hpp"

namespace tessera::cli {

struct T3RunArguments {
  std::string layer;   ///< "FC-2"; as to_text(SubLayer)
  std::string config;  ///< "t3"; as to_text(SubLayerRun)
  bool wanted() const { return !layer.empty() || !config.empty(); }
};

/// E0916 where the options do not name one run.
int run_t3(Session const& session, StudyArguments const& study, T3RunArguments const& run,
           TimelineOutputs const& outputs);

}  // namespace tessera::cli
