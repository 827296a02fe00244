// SPDX-License-Identifier: Apache-2.0
// Which policies a search tries.
#pragma once

#include <string>
#include <vector>

#include "tessera/plan/policies.hpp"

namespace tessera {

/// By dependence: all that are generated, of those that are `wanted` by name; empty: all. E0304 if none suits
/// a dependence.
Expected<std::vector<std::vector<Policy>>> allowed_policies(Pipeline const& pipeline,
                                                            std::vector<std::string> const& wanted);

/// One policy per dependence for every name that any dependence has: the dependences that have no policy of
/// the name take their finest.
std::vector<std::vector<Policy>> policy_families(std::vector<std::vector<Policy>> const& per_dependence);

/// The same maps, one for each dependence.
bool same_family(std::vector<Policy> const& a, std::vector<Policy> const& b);

}  // namespace tessera
