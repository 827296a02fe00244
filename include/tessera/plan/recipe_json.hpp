// SPDX-License-Identifier: Apache-2.0
// A recipe as JSON in one line:
//
//   {"mechanism": "pdl_tiles", "stages": [{"kernel": "gemm_128x192x64_2x1", "band": 4, "persistent_blocks":
//   132},
//    {"kernel": "gemm_128x256x64_2x1", "band": 1, "persistent_blocks": 0}],
//    "policies": [{"name": "RowSync", "map": ["all", "each"]}], "chained": true}
//
// What is left out has the values of Recipe.
#pragma once

#include <string>
#include <string_view>

#include "named_recipe.hpp"

namespace tessera {

std::string print_recipe(NamedRecipe const& recipe);

/// Refuses as parse_plan() does (E0250 to E0253).
Expected<NamedRecipe> parse_recipe(std::string_view json, std::string const& file);

}  // namespace tessera
