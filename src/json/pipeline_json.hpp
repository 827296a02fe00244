// SPDX-License-Identifier: Apache-2.0
// A pipeline's members ("name", "stages", "dependences"), the same in a workload and in a plan.
#pragma once

#include <nlohmann/json.hpp>

#include "json/reader.hpp"
#include "tessera/describe/loop.hpp"

namespace tessera::json {

/// "wait": &Abilities::wait, ...
struct Ability {
  char const* word;
  bool Abilities::*member;
};
std::vector<Ability> const& abilities();

/// Adds the members to an object; with `places` also the source lines, whole or empty as they are.
void print_pipeline(Pipeline const& pipeline, nlohmann::ordered_json& out, bool places);

/// The inverse. A stage or dependence without "where" gets its line in this file. Mistakes go to the
/// document; the result is complete only if there were none. Not yet checked: that is check()'s part.
Pipeline read_pipeline(Document& document, Node const& node, ObjectReader& reader);

/// The same of a loop: dependences may have a "distance", and "loop" has copies of buffers.
void print_loop(Loop const& loop, nlohmann::ordered_json& out);
Loop read_loop(Document& document, Node const& node, ObjectReader& reader);

}  // namespace tessera::json
