// SPDX-License-Identifier: Apache-2.0
#include "bench/mlp/timing.hpp"

#include <cstdio>
#include <cstdlib>

namespace tessera::bench {

void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

double median(std::vector<double> samples) { return mlp::quantile(std::move(samples), 0.5); }

bool Timer::capture(Variant& variant) {
  mlp::Timed timed{variant.work};
  bool const right = timer_.capture(timed);
  check(timer_.error(), "capturing");
  variant.graph = timed.graph;
  return right;
}

void Timer::release(Variant& variant) {
  if (variant.graph != nullptr) cudaGraphExecDestroy(variant.graph);
  variant.graph = nullptr;
}

void Timer::rounds(std::vector<Variant*> const& variants, int count, double rest) {
  std::vector<mlp::Timed> timed(variants.size());
  std::vector<mlp::Timed*> all;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    timed[i].graph = variants[i]->graph;
    all.push_back(&timed[i]);
  }
  if (rest > 0)
    timer_.cool_rounds(all, count, rest);
  else
    timer_.hot_rounds(all, count);
  check(timer_.error(), "measuring");
  for (std::size_t i = 0; i < variants.size(); ++i) {
    auto const& taken = rest > 0 ? timed[i].cool : timed[i].hot;
    variants[i]->samples.insert(variants[i]->samples.end(), taken.begin(), taken.end());
  }
}

double Timer::quick(Variant& variant, int samples) {
  double const time = timer_.quick(variant.work, samples);
  check(timer_.error(), "measuring");
  return time;
}

}  // namespace tessera::bench
