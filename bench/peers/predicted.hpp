// SPDX-License-Identifier: Apache-2.0
// What products with their collective should take on H200s, without a GPU: products of shipped kernels,
// planned and simulated on the profile h200, laid behind each other as way_price.hpp says.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/predict/recipes.hpp"
#include "kernels/gemm_collectives/way_price.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::gemm_collectives {

struct PredictedTimes {
  double product = 0;                        ///< of all rows, alone
  std::vector<std::pair<Way, double>> ways;  ///< of those that have a price

  std::optional<double> of(Way way) const {
    for (auto const& [one, us] : ways)
      if (one == way) return us;
    return std::nullopt;
  }
  /// The fastest.
  std::optional<Way> chosen() const {
    auto const first = std::min_element(ways.begin(), ways.end(),
                                        [](auto const& a, auto const& b) { return a.second < b.second; });
    return first == ways.end() ? std::nullopt : std::optional(first->first);
  }
};

/// Each product is planned once.
class Predictor {
 public:
  PredictedTimes operator()(Problem const& problem, PartKernel part_kernel) {
    auto const product = [&](int rows, int columns, int depth) { return product_us(rows, columns, depth); };
    PredictedTimes result;
    result.product = product(problem.rows, problem.local_columns(), problem.local_depth());
    for (auto const way : ways_of(problem)) {
      auto us = price_of(problem, way, 1, h200_figures(), product, part_kernel);
      if (!us) continue;
      constexpr int k_least_part = 256;
      if (way == Way::add && most_shard_rows(problem.rows, problem.ranks) >= 2 * k_least_part)
        us = std::min(*us, *price_of(problem, way, 2, h200_figures(), product, part_kernel));
      result.ways.emplace_back(way, *us);
    }
    return result;
  }

 private:
  double product_us(int rows, int columns, int depth) {
    auto const [known, is_new] = known_.try_emplace({rows, columns, depth}, 0);
    if (!is_new) return known->second;
    auto const plan =
        choose_by_simulation(bench::gemm_graph(rows, columns, depth), shipped_kernels(), machine_, {}, {});
    if (!plan) throw std::runtime_error(to_text(plan.error()));
    return known->second = plan->predicted_us;
  }

  MachineProfile machine_ = machine("h200").value();
  std::map<std::tuple<int, int, int>, double> known_;
};

}  // namespace tessera::gemm_collectives
