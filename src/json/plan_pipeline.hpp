// SPDX-License-Identifier: Apache-2.0
// The pipeline inside a plan, exact to the last expression and source line. Expressions are written as they
// are evaluated, ["//", "x", 9] for floor(x/9), so that a loader needs no parser.
#pragma once

#include <nlohmann/json.hpp>

#include "json/reader.hpp"
#include "tessera/describe/pipeline.hpp"

namespace tessera::json {

/// Codes of plan files; expressions and contradictions have their own.
inline constexpr Codes k_plan_codes{"E0250", "E0251", "E0252", "E0253"};
inline constexpr char const* k_plan_expression = "E0255";

nlohmann::ordered_json to_json(Pipeline const& pipeline);

/// Reports into the document; the result is complete only if nothing was. Not yet checked: that is check()'s
/// part.
Pipeline read_pipeline(Document& document, Node const& node);

}  // namespace tessera::json
