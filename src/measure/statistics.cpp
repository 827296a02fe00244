// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera {

namespace {

double quantile_of_sorted(std::vector<double> const& sorted, double part) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  double const at = part * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(at);
  auto const above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double quantile(std::vector<double> samples, double part) {
  std::sort(samples.begin(), samples.end());
  return quantile_of_sorted(samples, part);
}

double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

Summary summarize(std::vector<double> samples) {
  Summary result;
  if (samples.empty()) return result;
  std::sort(samples.begin(), samples.end());
  auto const n = static_cast<double>(samples.size());
  for (double const x : samples) result.mean += x / n;
  double squares = 0;
  for (double const x : samples) squares += (x - result.mean) * (x - result.mean);
  result.deviation = samples.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  result.median = quantile_of_sorted(samples, 0.5);
  result.p05 = quantile_of_sorted(samples, 0.05);
  result.p95 = quantile_of_sorted(samples, 0.95);
  result.samples = static_cast<int>(samples.size());
  return result;
}

Cost repeat_difference(std::vector<double> const& many, double many_repeats, std::vector<double> const& few,
                       double few_repeats) {
  double const difference = many_repeats - few_repeats;
  if (difference == 0) return {};
  std::vector<double> costs;
  for (std::size_t i = 0; i < std::min(many.size(), few.size()); ++i)
    costs.push_back((many[i] - few[i]) / difference);
  auto const all = summarize(costs);
  auto const first = summarize(many);
  auto const second = summarize(few);
  return {all.median, std::hypot(first.deviation, second.deviation) / std::abs(difference), all.p05, all.p95,
          all.samples};
}

Cost kernel_fusion(std::vector<double> const& many_launches, std::vector<double> const& few_launches, int i,
                   int j) {
  return repeat_difference(many_launches, i, few_launches, j);
}

Line fit_line(std::vector<double> const& x, std::vector<double> const& y) {
  Line line;
  auto const count = std::min(x.size(), y.size());
  if (count == 0) return line;
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < count; ++i) {
    mean_x += x[i] / static_cast<double>(count);
    mean_y += y[i] / static_cast<double>(count);
  }
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < count; ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  line.slope = xx > 0 ? xy / xx : 0;
  line.intercept = mean_y - line.slope * mean_x;
  double left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double const residual = y[i] - line.intercept - line.slope * x[i];
    left += residual * residual;
    line.worst_residual = std::max(line.worst_residual, std::abs(residual));
  }
  line.r2 = yy > 0 ? 1 - left / yy : 1;
  return line;
}

}  // namespace tessera
