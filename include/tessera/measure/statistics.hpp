// SPDX-License-Identifier: Apache-2.0
// From raw times to a cost with its spread: repeat difference, kernel fusion, straight lines. The numbered
// equations are those of Zhang et al., A Study of Single and Multi-device Synchronization Methods in Nvidia
// GPUs, IPDPS 2020.
#pragma once

#include <vector>

namespace tessera {

/// What a set of samples says; all zero for none. `deviation` is the sample standard deviation.
struct Summary {
  double median = 0, mean = 0, deviation = 0, p05 = 0, p95 = 0;
  int samples = 0;
};
Summary summarize(std::vector<double> samples);

/// The one rule of the whole tree: linear between the two nearest ranks of the sorted samples; `part` in [0,
/// 1]. Not a number of none.
double quantile(std::vector<double> samples, double part);
/// quantile() of 0.5: of an even number of samples the mean of the two in the middle.
double median(std::vector<double> samples);

/// One repetition's cost. `deviation` is Eq. 8's: that of the difference over the number of repetitions.
struct Cost {
  double median = 0, deviation = 0, p05 = 0, p95 = 0;
  int samples = 0;
};

/// Eq. 7 and 8: T = (L1 - L2) / (r1 - r2), sigma = sqrt(sigma1^2 + sigma2^2) / |r1 - r2|. Samples are taken
/// in pairs, in the order given; `many` belongs to the larger number of repetitions. Zeros unless r1 != r2.
Cost repeat_difference(std::vector<double> const& many, double many_repeats, std::vector<double> const& few,
                       double few_repeats);

/// Eq. 6: O = (L_ij - L_ji) / (i - j), where L_ij is the time of i launches with j units of work each. The
/// deviation is propagated as in Eq. 8.
Cost kernel_fusion(std::vector<double> const& many_launches, std::vector<double> const& few_launches, int i,
                   int j);

/// y = intercept + slope x by least squares; `r2` is the share of the variance that it explains.
struct Line {
  double intercept = 0, slope = 0, r2 = 0, worst_residual = 0;
};
Line fit_line(std::vector<double> const& x, std::vector<double> const& y);

}  // namespace tessera
