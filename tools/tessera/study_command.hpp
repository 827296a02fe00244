// SPDX-License-Identifier: Apache-2.0
// The studies of tessera simulate --study.
#pragma once

#include <string>

#include "session.hpp"

namespace tessera::cli {

struct StudyArguments {
  std::string study;    ///< "t3"
  std::string machine;  ///< empty: the study's own
  std::string output, csv, html;
};

int run_study(Session const& session, StudyArguments const& arguments);

}  // namespace tessera::cli
