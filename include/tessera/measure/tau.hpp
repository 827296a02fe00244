// SPDX-License-Identifier: Apache-2.0
// The tau model: N iterations, each of M units of work and K synchronizations, take
//
//     T = T0 + N (M tau_l + K lambda_s),   that is   tau = T / (N M) = tau_l + lambda_s / iota,  iota = M / K
//
// (Pershin, Levchenko, Perepelkina, Qualitative and Quantitative Study of Modern GPU Synchronization
// Approaches, 2021).
#pragma once

#include <vector>

namespace tessera {

struct TauSample {
  double iterations = 0;  ///< N
  double work = 0;        ///< M, units of work an iteration
  double syncs = 0;       ///< K, synchronizations an iteration
  double ns = 0;          ///< T

  bool operator==(TauSample const&) const = default;
};

/// Least squares with relative weights. `*_error` are standard errors of the fit; residuals are relative to
/// the measured time.
struct TauFit {
  double start_ns = 0;  ///< T0
  double work_ns = 0;   ///< tau_l
  double sync_ns = 0;   ///< lambda_s
  double start_error = 0, work_error = 0, sync_error = 0;
  double rms_residual = 0, worst_residual = 0;
  /// Exponent p of T = T0 + N ((M tau_l)^p + (K lambda_s)^p)^(1/p) that fits the samples best with the values
  /// above: 1 adds, larger means that waiting and work overlap.
  double overlap = 1;
  int samples = 0;

  bool operator==(TauFit const&) const = default;
};

/// Does the law hold for these samples? Where no residual is larger than 5 % of its time. A host that submits
/// each step waits for nothing while the GPU works: such times are the larger of the two, not their sum.
inline constexpr double k_law_holds_within = 0.05;
inline bool law_holds(TauFit const& fit) { return fit.worst_residual <= k_law_holds_within; }

/// Zeros for fewer than four samples, or samples that do not vary in M and in K.
TauFit fit_tau(std::vector<TauSample> const& samples);

double predicted_ns(TauFit const& fit, TauSample const& sample);

/// Largest relative error of the fit on samples that it has not seen.
double hold_out_error(TauFit const& fit, std::vector<TauSample> const& samples);

}  // namespace tessera
