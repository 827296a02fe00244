// SPDX-License-Identifier: Apache-2.0
// A plan as CUDA text: policies, orders and constants for tessera/sync.cuh. Logic stays in the library.
#pragma once

#include <string>

#include "../plan/plan.hpp"

namespace tessera {

/// A header that compiles with nvcc and with g++ in C++17 after nothing but tessera/sync.cuh.
/// Same plan, same bytes.
Expected<std::string> generate_header(Plan const& plan);

}  // namespace tessera
