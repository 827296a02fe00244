// SPDX-License-Identifier: Apache-2.0
// predict_peers [own]: what products with their collective should take on H200s, without a GPU. Each line of
// its input, "<collective> <rows> <columns> <depth> <GPUs>", is answered by a line: "<product alone>
// <way>=<us>...", or "-" where the sizes do not divide. Products are those of shipped kernels, planned and
// simulated on the profile h200. Parts of a shard are computed by the shard's kernel; with "own" by their
// own.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bench/predict/recipes.hpp"
#include "kernels/gemm_collectives/way_price.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

/// The fastest plan's, each once.
class Products {
 public:
  double operator()(int rows, int columns, int depth) {
    auto const key = std::tuple(rows, columns, depth);
    if (auto const known = known_.find(key); known != known_.end()) return known->second;
    auto const plan =
        choose_by_simulation(bench::gemm_graph(rows, columns, depth), shipped_kernels(), machine_, {}, {});
    if (!plan) throw std::runtime_error(to_text(plan.error()));
    return known_[key] = plan->predicted_us;
  }

 private:
  MachineProfile machine_ = machine("h200").value();
  std::map<std::tuple<int, int, int>, double> known_;
};

void answer(Problem const& problem, Products& products, PartKernel part_kernel) {
  auto const product = [&](int rows, int columns, int depth) { return products(rows, columns, depth); };
  std::printf("%.2f", product(problem.rows, problem.local_columns(), problem.local_depth()));
  for (auto const way : ways_of(problem)) {
    if (way == Way::sequential) continue;
    double us = price_of(problem, way, 1, h200_figures(), product, part_kernel);
    constexpr int k_least_part = 256;
    if (way == Way::add && most_shard_rows(problem.rows, problem.ranks) >= 2 * k_least_part)
      us = std::min(us, price_of(problem, way, 2, h200_figures(), product, part_kernel));
    std::printf(" %s=%.2f", to_string(way), us);
  }
  std::printf("\n");
}

}  // namespace

int main(int count, char** words) {
  try {
    auto const part_kernel =
        count > 1 && std::string(words[1]) == "own" ? PartKernel::own : PartKernel::of_shard;
    Products products;
    std::string name;
    Problem problem;
    while (std::cin >> name >> problem.rows >> problem.columns >> problem.depth >> problem.ranks) {
      auto const collective = collective_named(name);
      if (!collective) throw std::runtime_error("no collective has the name " + name);
      problem.collective = *collective;
      if (check_problem(problem))
        answer(problem, products, part_kernel);
      else
        std::printf("-\n");
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
