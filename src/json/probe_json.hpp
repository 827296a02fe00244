// SPDX-License-Identifier: Apache-2.0
// The part of a file that is a probe.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "json/reader.hpp"
#include "tessera/measure/probe.hpp"

namespace tessera::json {

/// Columns of files with a probe: a figure's value is one line.
inline constexpr std::size_t k_probe_width = 200;

/// Findings go to `document`, under its codes.
ProbeIdentity read_identity(Document& document, Node const& node);
nlohmann::ordered_json identity_value(ProbeIdentity const& identity);
Probe read_probe(Document& document, Node const& node);
nlohmann::ordered_json probe_value(Probe const& probe);

}  // namespace tessera::json
