// SPDX-License-Identifier: Apache-2.0
// Which kernels, orders and mechanisms are worth a measurement for a size: a table of waves, made without a
// GPU.
#pragma once

#include "pair.hpp"

namespace tessera::gemm_sm90 {

/// The time of one GEMM in a kernel, from its grid alone: good for ordering kernels, not for promising times.
struct Estimate {
  int tiles = 0;      ///< with those that pad a cluster; twice where two blocks share one
  int waves = 0;      ///< of one tile for each multiprocessor
  double useful = 0;  ///< part of the waves' work that is asked for, in 0...1
  double microseconds = 0;
};
Estimate estimate(KernelInfo const& kernel, Problem const& problem, int multiprocessors);

/// One GEMM alone: the kernels that the table puts within `slack` of its best, best first, each in several
/// orders of tiles, one block a tile and persistent.
std::vector<Half> half_candidates(mlp::Shape const& shape, bool first, int multiprocessors,
                                  double slack = 1.4);

/// Pairs, the most promising kernels first: stream order, PDL, and tiles and rows of tiles as semaphores, in
/// the orders that help them. At most `most`; empty if nothing here is for this form, type and size.
std::vector<PairPlan> candidates(mlp::Shape const& shape, int multiprocessors, std::size_t most = 200);

}  // namespace tessera::gemm_sm90
