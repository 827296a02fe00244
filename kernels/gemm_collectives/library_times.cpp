// SPDX-License-Identifier: Apache-2.0
#include "library_times.hpp"

#include <cmath>
#include <iterator>

namespace tessera::gemm_collectives {
namespace {

double megabytes(Problem const& problem) {
  constexpr double k_element = 2, k_mega = 1e6;
  double const wide = problem.collective == Collective::all_gather ? problem.depth : problem.columns;
  return k_element * problem.rows * wide / k_mega;
}

}  // namespace

std::optional<double> LibraryTimes::us(Problem const& problem) const {
  auto const found = by_ranks.find({problem.collective, problem.ranks});
  if (found == by_ranks.end() || found->second.size() < 2) return std::nullopt;
  auto const& times = found->second;
  double const size = megabytes(problem);
  if (size < times.begin()->first) return std::nullopt;
  auto const above = times.lower_bound(size);
  if (above == times.end()) {
    auto const last = std::prev(above), before = std::prev(last);
    return last->second +
           (size - last->first) * (last->second - before->second) / (last->first - before->first);
  }
  if (above == times.begin()) return above->second;
  auto const below = std::prev(above);
  double const share = std::log(size / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

// "nccl" of results/h100x2/gemm_collectives_tokens.json (all-reduce up to 0.8 MB),
// .../gemm_collectives_rows.json (the other sizes on two) and results/h100x4/gemm_collectives.json.
LibraryTimes const& nccl_times() {
  static LibraryTimes const times = [] {
    TimesBySize const reduce_scatter_of_four{{8.388, 39.1}, {33.55, 106.8}, {50.33, 153.4}, {69.73, 201.1},
                                             {75.5, 220.5}, {83.89, 244.6}, {100.66, 274.9}};
    return LibraryTimes{{{{Collective::all_reduce, 2},
                          {{0.016, 7.55},
                           {0.066, 8.03},
                           {0.131, 8.23},
                           {0.262, 9.45},
                           {0.524, 10.67},
                           {0.786, 11.86},
                           {1.049, 14.31},
                           {1.573, 17.4},
                           {2.097, 28.36},
                           {3.146, 30.3},
                           {4.194, 33.71},
                           {6.291, 40.41},
                           {8.389, 48.31},
                           {12.58, 64.07},
                           {16.78, 79.89},
                           {25.17, 109.3},
                           {49.17, 196.8},
                           {67.11, 259.1},
                           {134.2, 496.7}}},
                         {{Collective::reduce_scatter, 2},
                          {{1.048, 10.86},
                           {1.573, 12.92},
                           {2.097, 15.69},
                           {3.146, 22.25},
                           {4.194, 23.26},
                           {6.291, 26.84},
                           {8.389, 32.22},
                           {12.58, 42.4},
                           {16.78, 53.9},
                           {25.17, 76.33},
                           {49.17, 134.3},
                           {67.11, 176.9},
                           {134.2, 330.9}}},
                         {{Collective::all_gather, 2},
                          {{1.048, 11.63},
                           {1.573, 13.83},
                           {2.097, 17.34},
                           {3.146, 24.79},
                           {4.194, 27.14},
                           {6.291, 34.06},
                           {8.389, 42.05},
                           {12.58, 51.98},
                           {16.78, 64.16},
                           {25.17, 82.82},
                           {49.17, 137.5},
                           {67.11, 176.4},
                           {134.2, 328.5}}},
                         {{Collective::all_reduce, 4},
                          {{0.016, 11.25},
                           {0.066, 11.52},
                           {0.131, 11.72},
                           {0.262, 12.05},
                           {0.393, 12.46},
                           {0.524, 14.98},
                           {0.786, 15.62},
                           {1.049, 18.44},
                           {1.573, 21.73},
                           {50.33, 256.8},
                           {69.73, 338.1},
                           {75.5, 377.8},
                           {100.66, 471}}},
                         {{Collective::reduce_scatter, 4}, reduce_scatter_of_four},
                         {{Collective::all_gather, 4}, reduce_scatter_of_four}}};
  }();
  return times;
}

}  // namespace tessera::gemm_collectives
