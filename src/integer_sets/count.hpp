// SPDX-License-Identifier: Apache-2.0
// Number of points of a bounded isl set. Private to integer_sets.
#pragma once

#include <isl/set_type.h>

#include <cstdint>
#include <optional>

namespace tessera::integer_sets {

/// Takes the set. nullopt: isl gave up, or the number exceeds 2^62.
std::optional<std::int64_t> count_points(isl_set* set);

}  // namespace tessera::integer_sets
