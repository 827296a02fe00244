// SPDX-License-Identifier: Apache-2.0
// The ways to compute an MLP of one shape: two GEMMs put together, or both in one launch.
#pragma once

#include <vector>

#include "halves.hpp"

namespace tessera::mlp {

/// Sizes that no kernel here can do: E0530.
Expected<void> check(Shape const& shape);

/// The second GEMM after the first: "<first> > <second>".
Candidate stream_pair(Half const& first, Half const& second);

/// How the second GEMM of two by gemm_sm90 may start before the first is complete.
struct Overlap {
  gemm_sm90::Mechanism mechanism = gemm_sm90::Mechanism::pdl;
  int tiles_per_semaphore = 1;  ///< whole_row: a semaphore per row
  bool early_weights = true;
};
constexpr int whole_row = 1 << 20;

/// "<first> > <second>; tile, early weights". Both halves are gemm_sm90's.
Candidate overlapped_pair(Shape const& shape, Half const& first, Half const& second, Overlap const& overlap);

/// Both GEMMs in one launch; none where the kernel is not for this shape.
std::vector<Candidate> single_launches(Shape const& shape);

/// By name, for this shape. E0532 if there is none of that name, or it cannot do this shape.
Expected<Candidate> find_candidate(Shape const& shape, std::string const& name);

/// What is taken without a measurement: cuBLASLt's best guess for both GEMMs.
Expected<Candidate> default_candidate(Shape const& shape);

}  // namespace tessera::mlp
