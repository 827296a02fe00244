// SPDX-License-Identifier: Apache-2.0
// What a timeline shows beside its blocks, as JSON: tracks with spans, and counters. Left out where empty.
#pragma once

#include <nlohmann/json.hpp>

#include "json/reader.hpp"
#include "tessera/timeline.hpp"

namespace tessera::json {

void print_tracks(Timeline const& timeline, nlohmann::ordered_json& out);

/// Reports what contradicts the rest, which must have been read, under `contradiction`.
void read_tracks(Document& document, ObjectReader& root, Timeline& timeline, char const* contradiction);

}  // namespace tessera::json
