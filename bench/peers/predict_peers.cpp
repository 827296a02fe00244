// SPDX-License-Identifier: Apache-2.0
// predict_peers [own]: what products with their collective should take on H200s, without a GPU. Each line of
// its input, "<collective> <rows> <columns> <depth> <GPUs>", is answered by a line: "<product alone> <way of
// an untuned call> <way>=<us>...", or "-" where the sizes do not divide. Parts of a shard are computed by the
// shard's kernel; with "own" by their own.
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>

#include "predicted.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

void answer(Problem const& problem, PredictedTimes const& times) {
  std::printf("%.2f %s", times.product, to_string(choose_way(problem)));
  for (auto const& [way, us] : times.ways) std::printf(" %s=%.2f", to_string(way), us);
  std::printf("\n");
}

}  // namespace

int main(int count, char** words) {
  try {
    auto const part_kernel =
        count > 1 && std::string(words[1]) == "own" ? PartKernel::own : PartKernel::of_shard;
    Predictor predictor;
    std::string name;
    Problem problem;
    while (std::cin >> name >> problem.rows >> problem.columns >> problem.depth >> problem.ranks) {
      auto const collective = collective_named(name);
      if (!collective) throw std::runtime_error("no collective has the name " + name);
      problem.collective = *collective;
      if (check_problem(problem))
        answer(problem, predictor(problem, part_kernel));
      else
        std::printf("-\n");
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
