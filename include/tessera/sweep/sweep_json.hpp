// SPDX-License-Identifier: Apache-2.0
// Tables of sweeps as JSON, "schema": "tessera.sweep/1"; numbers are numbers.
#pragma once

#include "table.hpp"

namespace tessera {

std::string print_sweep_json(SweepTable const& table);

/// E0923 as parse_sweep_csv().
Expected<SweepTable> parse_sweep_json(std::string_view text, std::string const& file,
                                      SweepRules const& rules = {});

}  // namespace tessera
