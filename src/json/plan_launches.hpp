// SPDX-License-Identifier: Apache-2.0
// Reads a plan's launches.
#pragma once

#include <vector>

#include "json/reader.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::json {

/// Member "launches". Precondition: the pipeline has been read.
void read_launches(Document& document, ObjectReader& root, Plan& plan);

/// What a file of version 1 says of a stage's launch.
struct Stage1 {
  Node const* node = nullptr;
  bool wait_kernel = false;
};
/// The same from members "mechanism", "workers" and "tickets" of version 1 and its stages' wait kernels.
/// Under PDL such a plan waited before every store: adds the reuse edges that now say so. Call when all other
/// parts have been read.
void read_launches_1(Document& document, ObjectReader& root, std::vector<Stage1> const& stages,
                     std::vector<BufferReuse> const& reuses, Plan& plan);

}  // namespace tessera::json
