// SPDX-License-Identifier: Apache-2.0
// Maps from producer tiles to semaphores, as workloads and plans write them: an array with a word for each
// dimension, or
// {"table": [...]}.
#pragma once

#include <nlohmann/json.hpp>

#include "json/reader.hpp"
#include "tessera/describe/policy_map.hpp"

namespace tessera::json {

nlohmann::ordered_json to_json(PolicyMap const& map, std::size_t rank);

/// Reports what is no map of this rank. That it suits the grid is for the caller: problem_of().
PolicyMap read_map(Document& document, Node const& node, std::size_t rank);

}  // namespace tessera::json
