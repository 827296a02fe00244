// SPDX-License-Identifier: Apache-2.0
// What every prediction of run --predict ends with.
#pragma once

#include <string>

#include "session.hpp"
#include "tessera/report/study.hpp"

namespace tessera::cli {

/// Prints a prediction, as text or as --json says, and writes it to `output` as JSON; empty: to no file.
int print_prediction(Session const& session, StudyDocument const& document, std::string const& output);

}  // namespace tessera::cli
