// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/tau.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera {
namespace {

using Row = std::array<double, 3>;
using Matrix = std::array<Row, 3>;

/// Inverse of a symmetric 3x3 matrix; false if it has (nearly) none. Scaled first: N M is 10^6 times 1.
bool invert(Matrix const& a, Matrix& inverse) {
  Row scale{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!(a[i][i] > 0)) return false;
    scale[i] = 1 / std::sqrt(a[i][i]);
  }
  Matrix s{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) s[i][j] = a[i][j] * scale[i] * scale[j];
  double const determinant = s[0][0] * (s[1][1] * s[2][2] - s[1][2] * s[2][1]) -
                             s[0][1] * (s[1][0] * s[2][2] - s[1][2] * s[2][0]) +
                             s[0][2] * (s[1][0] * s[2][1] - s[1][1] * s[2][0]);
  if (std::abs(determinant) < 1e-12) return false;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      auto const r = [](std::size_t at) { return (at + 1) % 3; };
      auto const t = [](std::size_t at) { return (at + 2) % 3; };
      inverse[j][i] =
          (s[r(i)][r(j)] * s[t(i)][t(j)] - s[r(i)][t(j)] * s[t(i)][r(j)]) / determinant * scale[i] * scale[j];
    }
  return true;
}

double with_overlap(TauFit const& fit, TauSample const& s, double p) {
  double const work = s.work * fit.work_ns;
  double const sync = s.syncs * fit.sync_ns;
  double const larger = std::max(work, sync);
  if (!(larger > 0)) return fit.start_ns;
  double const ratio = std::max(0.0, std::min(work, sync)) / larger;
  return fit.start_ns + s.iterations * larger * std::pow(1 + std::pow(ratio, p), 1 / p);
}

}  // namespace

double predicted_ns(TauFit const& fit, TauSample const& s) {
  return fit.start_ns + s.iterations * (s.work * fit.work_ns + s.syncs * fit.sync_ns);
}

TauFit fit_tau(std::vector<TauSample> const& samples) {
  TauFit fit;
  if (samples.size() < 4) return fit;
  Matrix normal{};
  Row right{};
  for (auto const& s : samples) {
    if (!(s.ns > 0)) return fit;
    Row const x{1, s.iterations * s.work, s.iterations * s.syncs};
    double const weight = 1 / (s.ns * s.ns);
    for (std::size_t i = 0; i < 3; ++i) {
      right[i] += weight * x[i] * s.ns;
      for (std::size_t j = 0; j < 3; ++j) normal[i][j] += weight * x[i] * x[j];
    }
  }
  Matrix inverse{};
  if (!invert(normal, inverse)) return fit;
  Row solution{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) solution[i] += inverse[i][j] * right[j];
  fit.start_ns = solution[0];
  fit.work_ns = solution[1];
  fit.sync_ns = solution[2];
  fit.samples = static_cast<int>(samples.size());
  double squares = 0;
  for (auto const& s : samples) {
    double const residual = (predicted_ns(fit, s) - s.ns) / s.ns;
    squares += residual * residual;
    fit.worst_residual = std::max(fit.worst_residual, std::abs(residual));
  }
  auto const n = static_cast<double>(samples.size());
  fit.rms_residual = std::sqrt(squares / n);
  double const variance = squares / (n - 3);
  fit.start_error = std::sqrt(variance * inverse[0][0]);
  fit.work_error = std::sqrt(variance * inverse[1][1]);
  fit.sync_error = std::sqrt(variance * inverse[2][2]);
  double best = -1;
  for (double p = 1; p <= 16; p *= 1.05) {
    double left = 0;
    for (auto const& s : samples) {
      double const residual = (with_overlap(fit, s, p) - s.ns) / s.ns;
      left += residual * residual;
    }
    if (best < 0 || left < best * 0.999) {
      best = left;
      fit.overlap = p;
    }
  }
  return fit;
}

double hold_out_error(TauFit const& fit, std::vector<TauSample> const& samples) {
  double worst = 0;
  for (auto const& s : samples) worst = std::max(worst, std::abs(predicted_ns(fit, s) - s.ns) / s.ns);
  return worst;
}

}  // namespace tessera
