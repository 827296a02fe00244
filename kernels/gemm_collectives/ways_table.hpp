// SPDX-License-Identifier: Apache-2.0
// What every way of a product with its collective took, as text. Without a GPU.
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

/// What has to cross the link, at the rate that copies of much more have in the same run.
constexpr char const* k_wire = "wire's floor";
/// The product while a copy engine sends as much, and while it sends a word: neither is a part of the ideal,
/// the first over the second is what the product loses.
constexpr char const* k_beside = "beside copies";
constexpr char const* k_beside_none = "beside no copy";

struct WayMeasured {
  std::string way;     ///< to_string(Way), or "product alone", "NCCL alone", k_wire, k_beside, k_beside_none
  std::string kernel;  ///< what it ran
  double us = 0, us_p10 = 0, us_p90 = 0;
  double error = 0;      ///< relative, of what it computed
  bool checked = false;  ///< parts alone are not
};

/// A line each, the fastest way first, what is alone last; then how the fastest compares with the sequence
/// and with the longer part alone, and whether all results are right: `largest_error` is the most that is.
std::string ways_table(std::vector<WayMeasured> rows, double largest_error);

/// All that were checked are no worse than that.
bool all_right(std::vector<WayMeasured> const& rows, double largest_error);

}  // namespace tessera::gemm_collectives
