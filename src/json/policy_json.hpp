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

nlohmann::ordered_json to_json(NamedPolicy const& policy, std::size_t rank);

/// Reports what is no map of this rank, the one of `producer`'s grid. That it suits the grid is for the
/// caller: problem_of().
PolicyMap read_map(Document& document, Node const& node, std::size_t rank, std::string const& producer);
/// The map and, for people, its name.
NamedPolicy read_policy(Document& document, Node const& node, std::size_t rank, std::string const& producer);

}  // namespace tessera::json
