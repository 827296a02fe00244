// SPDX-License-Identifier: Apache-2.0
// What T3's paper states, and what came out here. Tolerances: 3 % of a time of isolated parts, 5 % of a fused
// one, 4 points of memory traffic; counts of accesses as exactly as the paper prints them.
#include <algorithm>
#include <cmath>

#include "overlap/study_parts.hpp"

namespace tessera {

using overlap::bytes_of;

Spread spread_of(std::vector<double> const& values) {
  Spread spread;
  for (auto const value : values) {
    spread.mean += std::log(value);
    spread.most = std::max(spread.most, value);
    ++spread.count;
  }
  if (spread.count > 0) spread.mean = std::exp(spread.mean / spread.count);
  return spread;
}

std::vector<Headline> headlines(OverlapStudy const& study) {
  std::vector<double> ideal, t3, mca, large, over_ideal, reads_rs, writes, reads_8, reads_16;
  double moved = 0;
  double moved_most = 0;
  for (auto const& runs : study.sub_layers) {
    if (!is_main(runs)) {
      large.push_back(runs.speedup(runs.fused_mca()));
      continue;
    }
    ideal.push_back(runs.speedup(runs.ideal()));
    t3.push_back(runs.speedup(runs.fused()));
    mca.push_back(runs.speedup(runs.fused_mca()));
    over_ideal.push_back(static_cast<double>(runs.fused_mca()) / static_cast<double>(runs.ideal()));
    auto const less = 1 - moved_fused(runs) / moved_sequential(runs);
    moved += less;
    moved_most = std::max(moved_most, less);
    reads_rs.push_back(bytes_of(runs.collectives.reduce_scatter, Traffic::collective_read) /
                       bytes_of(runs.t3_mca, Traffic::collective_read));
    writes.push_back(
        (bytes_of(runs.gemm, Traffic::gemm_write) +
         bytes_of(runs.collectives.reduce_scatter, Traffic::collective_write)) /
        (bytes_of(runs.t3_mca, Traffic::gemm_write) + bytes_of(runs.t3_mca, Traffic::collective_write)));
    (runs.tensor_parallel == 8 ? reads_8 : reads_16)
        .push_back(bytes_of(runs.gemm, Traffic::gemm_read) / bytes_of(runs.t3_mca, Traffic::gemm_read));
  }
  std::vector<Headline> out;
  bool const own = study.machine.name == "t3" && study.models == t3_models();
  auto const add = [&](char const* name, double value, double paper, double tolerance) {
    out.push_back({name, value, own ? paper : 0, tolerance});
  };
  if (!ideal.empty()) {
    auto const count = static_cast<double>(ideal.size());
    add("ideal overlap, geometric mean", spread_of(ideal).mean, 1.35, 0.03 * 1.35);
    add("ideal overlap, most", spread_of(ideal).most, 1.50, 0.03 * 1.50);
    add("T3, geometric mean", spread_of(t3).mean, 1.20, 0.05 * 1.20);
    add("T3, most", spread_of(t3).most, 1.39, 0.05 * 1.39);
    add("T3-MCA, geometric mean", spread_of(mca).mean, 1.30, 0.05 * 1.30);
    add("T3-MCA, most", spread_of(mca).most, 1.47, 0.05 * 1.47);
    add("T3-MCA's time over ideal overlap's, geometric mean", spread_of(over_ideal).mean, 1.05, 0.05);
    add("memory traffic saved, mean", moved / count, 0.22, 0.04);
    add("memory traffic saved, most", moved_most, 0.36, 0.04);
    add("reduce-scatter reads, times fewer", spread_of(reads_rs).mean, 2.4, 0.1);
    add("GEMM and reduce-scatter writes, times fewer", spread_of(writes).mean, 1.10, 0.02);
    if (!reads_8.empty()) add("GEMM reads, times fewer, 8 GPUs", spread_of(reads_8).mean, 1.2, 0.1);
    if (!reads_16.empty()) add("GEMM reads, times fewer, 16 GPUs", spread_of(reads_16).mean, 2.0, 0.2);
  }
  if (!large.empty()) {
    add("larger models, T3-MCA, geometric mean", spread_of(large).mean, 1.29, 0.05 * 1.29);
    add("larger models, T3-MCA, most", spread_of(large).most, 1.35, 0.05 * 1.35);
  }
  return out;
}

}  // namespace tessera
