// SPDX-License-Identifier: Apache-2.0
// The tuning cache as versioned JSON ("schema": "tessera.tune/1"), made to be read by people too.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tune/cache.hpp"

namespace tessera {

std::string print_tune_cache(TuneCache const& cache);

/// Refuses (E0523 to E0528) what is no cache, another version, and one that contradicts itself. `file`
/// appears in diagnostics only.
Expected<TuneCache> parse_tune_cache(std::string_view json, std::string const& file);

}  // namespace tessera
