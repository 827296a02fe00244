// SPDX-License-Identifier: Apache-2.0
// What the results of all ranks should be, in fp32 without tensor cores.
#pragma once

#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// NaNs into the results of all ranks, which belong to this process. Throws where CUDA fails.
void poison_results(PeerGroup const& group, Problem const& problem, std::vector<Operands> const& operands);

/// The largest of the ranks' relative errors; NaN where something was not written. Throws where CUDA fails.
double worst_error(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                   std::vector<Operands> const& operands);

/// What rounding may leave of it: partial sums are rounded to the matrices' type once.
constexpr double k_largest_error = 6e-3;

}  // namespace tessera::gemm_collectives
