// SPDX-License-Identifier: Apache-2.0
// A timeline as versioned JSON ("schema": "tessera.timeline/1"), whole.
#pragma once

#include <string>
#include <string_view>

#include "diagnostic.hpp"
#include "timeline.hpp"

namespace tessera {

std::string print_timeline(Timeline const& timeline);

/// Refuses (E0701 to E0706) text that is no timeline, another version, and one whose parts contradict each
/// other: what this returns is safe to index with and its times are in order. `file` appears in diagnostics
/// only.
Expected<Timeline> parse_timeline(std::string_view json, std::string const& file);

}  // namespace tessera
