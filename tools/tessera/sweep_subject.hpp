// SPDX-License-Identifier: Apache-2.0
// What can be swept: something that is simulated for every choice of its parameters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "load.hpp"
#include "tessera/sweep/grid.hpp"
#include "tessera/sweep/table.hpp"

namespace tessera::cli {

struct SweepSubject {
  std::string title;
  std::string identity;  ///< all that decides the results, but the settings
  std::vector<Parameter> parameters;
  std::string main_result;                       ///< what sensitivities are of unless another is named
  std::function<std::string(std::string)> base;  ///< a parameter's value where nothing is set; may be ""
  std::function<std::vector<std::string>(SweepGrid const&)> results;  ///< the columns over this grid
  /// One text for each of `columns`. Called from several threads at once.
  std::function<Expected<std::vector<std::string>>(std::vector<SweepSetting> const& settings,
                                                   std::vector<std::string> const& columns)>
      run;
  std::function<MachineProfile(std::vector<SweepSetting> const&)> machine;  ///< so changed
};

struct SweepSubjectArguments {
  std::string study;    ///< "t3", or empty: the workload is planned
  std::string machine;  ///< empty: the study's own, or h200
  std::vector<std::string> models;
  WorkloadOptions workload;
};

/// What tables of both subjects may hold.
SweepRules sweep_rules();

/// E0921 if a size has an option's value and --set's.
Expected<void> check_given_once(SweepSubjectArguments const& arguments, SweepGrid const& grid);

/// E0913 if there is neither a study nor a workload, E0906 for options that the subject has no use for.
Expected<SweepSubject> sweep_subject(SweepSubjectArguments const& arguments);

}  // namespace tessera::cli
