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
// .../gemm_collectives_rows.json (the other sizes on two), and of both in results/h100x4, the mean where a
// size was measured several times. Up to 2.1 MB of rows of 8192 and 12288 columns alone: other widths take up
// to 2 µs more.
LibraryTimes const& nccl_times() {
  static LibraryTimes const times{
      {{{Collective::all_reduce, 2},
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
        {{0.016, 11.29}, {0.033, 11.49}, {0.066, 11.62}, {0.131, 11.69}, {0.262, 12.07}, {0.393, 12.48},
         {0.524, 14.9},  {0.786, 15.7},  {1.049, 18.54}, {1.573, 21.8},  {2.097, 27.75}, {2.359, 28.29},
         {2.621, 30.91}, {3.146, 33.41}, {4.194, 41.22}, {6.291, 49.03}, {8.389, 62.08}, {12.58, 81.57},
         {16.78, 100.8}, {25.17, 134.3}, {33.55, 177},   {49.17, 245.8}, {50.33, 259},   {67.11, 327.6},
         {69.73, 341.8}, {75.5, 380},    {83.89, 421.5}, {100.7, 471.8}, {134.2, 617.4}}},
       {{Collective::reduce_scatter, 4},
        {{1.049, 11.71},
         {1.573, 14.02},
         {2.097, 17.26},
         {3.146, 23.04},
         {4.194, 33.49},
         {6.291, 35.38},
         {8.389, 39.05},
         {12.58, 47.94},
         {16.78, 60.17},
         {25.17, 82.36},
         {33.55, 107.9},
         {49.17, 146.7},
         {50.33, 154.9},
         {67.11, 195.7},
         {69.73, 202.2},
         {75.5, 221.1},
         {83.89, 245.6},
         {100.7, 275.8},
         {134.2, 361.6}}},
       {{Collective::all_gather, 4},
        {{1.049, 13.42},
         {1.573, 16.01},
         {2.097, 19.07},
         {3.146, 23.47},
         {4.194, 37.31},
         {6.291, 40.5},
         {8.389, 46.61},
         {12.58, 57.45},
         {16.78, 74.09},
         {25.17, 98.63},
         {33.55, 118.8},
         {49.17, 160.1},
         {50.33, 167.8},
         {67.11, 211.2},
         {69.73, 208.9},
         {75.5, 236.3},
         {83.89, 255.3},
         {100.7, 281.8},
         {134.2, 379.9}}}}};
  return times;
}

}  // namespace tessera::gemm_collectives
