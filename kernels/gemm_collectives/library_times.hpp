// SPDX-License-Identifier: Apache-2.0
// What NCCL's collectives take alone, as they were measured: what the sequence is priced by.
#pragma once

#include <map>
#include <optional>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

/// Microseconds by megabytes of the whole: an all-reduce's result, a reduce-scatter's operand, an
/// all-gather's result.
using TimesBySize = std::map<double, double>;

struct LibraryTimes {
  std::map<std::pair<Collective, int>, TimesBySize> by_ranks;

  /// Between two sizes on a straight line of logarithms; beyond the largest by the rate of the largest two.
  /// Nothing below the smallest, and where nothing was measured with so many ranks.
  std::optional<double> us(Problem const& problem) const;
};

/// NCCL 2.28 on two and four H100 over NVLink, without its multicast. H200 have the same links: on two of
/// them it takes as long within 4 % (docs/design/notes-peers.md).
LibraryTimes const& nccl_times();

}  // namespace tessera::gemm_collectives
