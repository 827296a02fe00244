// SPDX-License-Identifier: Apache-2.0
// How LayerCosts are fitted: least squares of logarithms, so that a microsecond counts more where a layer
// takes few, and rows that are further off than others count less than their square.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "convolution/layer_record.hpp"
#include "kernels/convolution/layer_time.hpp"

namespace tessera::convolution {

struct FittedCosts {
  LayerCosts costs;
  double graph_us = k_graph_us;
};

struct Figure {
  char const* name;
  double LayerCosts::*at;
};
constexpr Figure k_figures[] = {{"boundary", &LayerCosts::boundary},
                                {"round", &LayerCosts::round},
                                {"turn", &LayerCosts::turn},
                                {"late", &LayerCosts::late},
                                {"late_cluster", &LayerCosts::late_cluster},
                                {"slot", &LayerCosts::slot},
                                {"wide_step", &LayerCosts::wide_step},
                                {"wide_column", &LayerCosts::wide_column},
                                {"wide_beside", &LayerCosts::wide_beside},
                                {"matrices", &LayerCosts::matrices},
                                {"beside", &LayerCosts::beside},
                                {"block_beside", &LayerCosts::block_beside},
                                {"patch_wait", &LayerCosts::patch_wait},
                                {"bytes_per_cycle", &LayerCosts::bytes_per_cycle},
                                {"column", &LayerCosts::column},
                                {"pixel", &LayerCosts::pixel},
                                {"residual", &LayerCosts::residual},
                                {"exchange", &LayerCosts::exchange},
                                {"sent", &LayerCosts::sent},
                                {"met", &LayerCosts::met},
                                {"activation_bytes", &LayerCosts::activation_bytes}};
constexpr std::size_t k_unknowns = std::size(k_figures) + 1;
using Unknowns = std::array<double, k_unknowns>;

inline FittedCosts costs_of(Unknowns const& x) {
  FittedCosts result;
  for (std::size_t i = 0; i < std::size(k_figures); ++i) result.costs.*k_figures[i].at = x[i];
  result.graph_us = x.back();
  return result;
}
inline Unknowns unknowns_of(FittedCosts const& costs) {
  Unknowns x{};
  for (std::size_t i = 0; i < std::size(k_figures); ++i) x[i] = costs.costs.*k_figures[i].at;
  x.back() = costs.graph_us;
  return x;
}

inline double predicted_us(MeasuredCut const& cut, FittedCosts const& costs) {
  return layer_us(cut.stage(), cut.adds(), k_record_sms, costs.costs) + costs.graph_us / cut.in_graph;
}

class LayerFit {
 public:
  explicit LayerFit(std::vector<MeasuredCut> rows) : rows_(std::move(rows)) {}

  double cost(Unknowns const& x) const {
    double sum = 0;
    for (double const off : offs(x))
      sum += std::abs(off) < k_far ? off * off : k_far * (2 * std::abs(off) - k_far);
    return sum;
  }
  /// Levenberg's and Marquardt's steps, of logarithms of the figures: none becomes less than zero.
  Unknowns from(Unknowns x) const {
    double damping = 1e-2, now = cost(x);
    for (int round = 0; round < 200; ++round) {
      bool better = false;
      auto const [matrix, right] = normal_equations(x);
      for (int i = 0; i < 8 && !better; ++i) {
        auto const step = solved(matrix, right, damping);
        auto next = x;
        for (std::size_t k = 0; k < k_unknowns; ++k) next[k] *= std::exp(std::clamp(-step[k], -1.0, 1.0));
        double const then = cost(next);
        better = then < now;
        damping = better ? std::max(1e-6, damping * 0.3) : damping * 4;
        if (!better) continue;
        bool const little = now - then < 1e-6 * now;
        x = next, now = then;
        if (little) return x;
      }
      if (!better) break;
    }
    return x;
  }

 private:
  using Matrix = std::array<Unknowns, k_unknowns>;
  static constexpr double k_far = 0.15, k_part = 1e-3;

  std::vector<double> offs(Unknowns const& x) const {
    auto const costs = costs_of(x);
    std::vector<double> result;
    for (auto const& row : rows_) result.push_back(std::log(predicted_us(row, costs) / row.us));
    return result;
  }
  std::pair<Matrix, Unknowns> normal_equations(Unknowns const& x) const {
    auto const base = offs(x);
    std::array<std::vector<double>, k_unknowns> slopes;
    for (std::size_t k = 0; k < k_unknowns; ++k) {
      auto moved = x;
      moved[k] *= 1 + k_part;
      slopes[k] = offs(moved);
      for (std::size_t i = 0; i < base.size(); ++i) slopes[k][i] = (slopes[k][i] - base[i]) / k_part;
    }
    Matrix matrix{};
    Unknowns right{};
    for (std::size_t i = 0; i < base.size(); ++i) {
      double const weight = std::abs(base[i]) < k_far ? 1 : k_far / std::abs(base[i]);
      for (std::size_t a = 0; a < k_unknowns; ++a) {
        right[a] += weight * slopes[a][i] * base[i];
        for (std::size_t b = 0; b < k_unknowns; ++b) matrix[a][b] += weight * slopes[a][i] * slopes[b][i];
      }
    }
    return {matrix, right};
  }
  static Unknowns solved(Matrix m, Unknowns x, double damping) {
    for (std::size_t a = 0; a < k_unknowns; ++a) m[a][a] = m[a][a] * (1 + damping) + 1e-9;
    // Positive definite: no pivots.
    for (std::size_t a = 0; a < k_unknowns; ++a)
      for (std::size_t row = a + 1; row < k_unknowns; ++row) {
        double const factor = m[row][a] / m[a][a];
        for (std::size_t c = a; c < k_unknowns; ++c) m[row][c] -= factor * m[a][c];
        x[row] -= factor * x[a];
      }
    for (std::size_t a = k_unknowns; a-- > 0;) {
      for (std::size_t c = a + 1; c < k_unknowns; ++c) x[a] -= m[a][c] * x[c];
      x[a] /= m[a][a];
    }
    return x;
  }

  std::vector<MeasuredCut> rows_;
};

}  // namespace tessera::convolution
