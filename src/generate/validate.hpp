// SPDX-License-Identifier: Apache-2.0
// Refusals of the generator.
#pragma once

#include "tessera/plan/plan.hpp"

namespace tessera::generate {

/// Everything about the plan that the header could not say in valid C++: names (E0401, E0402), and parts that
/// contradict each other (E0403). Empty: none.
Diagnostics find_obstacles(Plan const& plan);

}  // namespace tessera::generate
