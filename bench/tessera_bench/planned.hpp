// SPDX-License-Identifier: Apache-2.0
// What would run if nothing were measured: the pair that the simulator prices lowest.
#pragma once

#include <optional>

#include "kernels/mlp/candidate.hpp"

namespace tessera::bench {

/// For the shipped profile `machine`. Nothing where the catalogue has no kernel for it (fp16, few tokens).
std::optional<mlp::Candidate> planned_candidate(mlp::Shape const& shape, std::string const& machine);

}  // namespace tessera::bench
