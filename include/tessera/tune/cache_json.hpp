// SPDX-License-Identifier: Apache-2.0
// The tuning cache as versioned JSON ("schema": "tessera.tune/2"), made to be read by people too. An entry of
// an MLP takes about 4 KB: its plan (docs/reference/plan-json.md) without alternatives, and bands by name.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tune/cache.hpp"

namespace tessera {

std::string print_tune_cache(TuneCache const& cache);

/// Refuses (E0523 to E0528) what is no cache, another version, and one that contradicts itself; a plan in it
/// in parse_plan()'s words. `file` appears in diagnostics only.
Expected<TuneCache> parse_tune_cache(std::string_view json, std::string const& file);

}  // namespace tessera
