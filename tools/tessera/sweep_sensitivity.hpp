// SPDX-License-Identifier: Apache-2.0
// Which of a machine's numbers a subject's result depends on most.
#pragma once

#include <string>
#include <vector>

#include "sweep_run.hpp"
#include "tessera/sweep/sensitivity.hpp"

namespace tessera::cli {

/// Around the grid's one point. E0920 for a result that the subject does not have, or that is no number.
Expected<std::vector<Sensitivity>> sensitivities(Session const& session, SweepSubject const& subject,
                                                 SweepGrid const& grid, double by, std::string const& result,
                                                 RunOptions const& options);

}  // namespace tessera::cli
