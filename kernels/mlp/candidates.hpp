// SPDX-License-Identifier: Apache-2.0
// The ways to compute an MLP of one shape: two GEMMs put together, or both in one launch.
#pragma once

#include <vector>

#include "halves.hpp"

namespace tessera::mlp {

/// Sizes that no kernel here can do: E0530.
Expected<void> check(Shape const& shape);

/// The second GEMM after the first, by any libraries: "<first> > <second>".
Candidate stream_pair(Half const& first, Half const& second);

/// The same, and the second one, gemm_sm90's, loads its weights early: "...; pdl, early weights". Nothing if
/// the first is gemm_sm90's as well (see tiled_pair()) or the second is not.
std::optional<Candidate> mixed_pair(Shape const& shape, Half const& first, Half const& second);

/// Two GEMMs by gemm_sm90: "<first> > <second>" in stream order, "...; 1 tiles, early weights, chained" where
/// the second may start before the first is complete. Nothing if it cannot do this shape.
std::optional<Candidate> tiled_pair(Shape const& shape, gemm_sm90::PairPlan const& plan);

/// For PairPlan::columns_per_semaphore: a semaphore per row of tiles.
constexpr int whole_row = 1 << 20;

/// Both GEMMs in one launch; none where the kernel is not for this shape.
std::vector<Candidate> single_launches(Shape const& shape);
/// By name, also what single_launches() would name for other numbers of tokens; nothing if it cannot do
/// these.
std::optional<Candidate> find_single_launch(Shape const& shape, std::string const& name);

/// By name, for this shape. E0532 if there is none of that name, or it cannot do this shape.
Expected<Candidate> find_candidate(Shape const& shape, std::string const& name);

/// What is taken without a measurement: cuBLASLt's best guess for both GEMMs.
Expected<Candidate> default_candidate(Shape const& shape);

}  // namespace tessera::mlp
