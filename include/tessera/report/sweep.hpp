// SPDX-License-Identifier: Apache-2.0
// Sweeps and sensitivities as tables and pages.
#pragma once

#include <string>
#include <vector>

#include "../sweep/sensitivity.hpp"
#include "../sweep/table.hpp"
#include "study.hpp"

namespace tessera {

/// Table "points" has all rows; then a table for each result that is a number, with its plot over the first
/// axis: a line for each combination of the other axes.
StudyDocument study_document(SweepTable const& table, std::string const& title);

/// Table "sensitivity", in the order given.
StudyDocument study_document(std::vector<Sensitivity> const& sensitivities, std::string const& title,
                             std::string const& result);

/// "schema": "tessera.sensitivity/1".
std::string sensitivities_json(std::vector<Sensitivity> const& sensitivities, std::string const& result);
std::string sensitivities_csv(std::vector<Sensitivity> const& sensitivities);

}  // namespace tessera
