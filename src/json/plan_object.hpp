// SPDX-License-Identifier: Apache-2.0
// A plan as one object of a file: a plan's own, or one that holds several.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "json/reader.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::json {

enum class PlanText {
  whole,
  to_run,  ///< without the alternatives, and without the places where it was described
};
nlohmann::ordered_json to_json(Plan const& plan, PlanText text);

/// The inverse, with every part held against the others, as parse_plan() says.
Expected<Plan> read_plan(Document& document, Node const& node);

}  // namespace tessera::json
