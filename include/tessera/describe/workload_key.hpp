// SPDX-License-Identifier: Apache-2.0
// What of a workload decides its plans, without the names that people gave: what measurements are stored by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload.hpp"

namespace tessera {

/// Two workloads with the same key have the same plans, but for names.
struct WorkloadKey {
  /// "gemm+swiglu bf16 (a: in0 rows, b: in1 rows) > gemm bf16 (a: 0 rows, b: in2 rows)" of operators: kind,
  /// epilogue, type, and for each operand the operator or the outside tensor, by number, that it reads. Of a
  /// pipeline the stages' names and kernels and a number for everything but the grids.
  std::string structure;
  /// Of each operator m, n, k and batch; last, where operators use them, the sizes of attention and of
  /// convolution. Of a pipeline the grid of each stage.
  std::vector<std::vector<std::int64_t>> sizes;

  bool operator==(WorkloadKey const&) const = default;
};

WorkloadKey workload_key(Workload const& workload);

/// Of operators: equal but for the rows (m). False for pipelines that differ: their dependences are written
/// for one grid.
bool same_but_rows(WorkloadKey const& a, WorkloadKey const& b);

/// Rows of the first operator; 0 of a pipeline.
std::int64_t rows_of(WorkloadKey const& key);

}  // namespace tessera
