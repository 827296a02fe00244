// SPDX-License-Identifier: Apache-2.0
#include "bench/mlp/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::bench {
namespace {

using gemm_sm90::Half;
using gemm_sm90::Kernel;
using gemm_sm90::Mechanism;
using gemm_sm90::PairPlan;

constexpr int whole_row = 1 << 20;

int multiprocessors() {
  static int const count = [] {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
    return value;
  }();
  return count;
}

gemm_sm90::Call call_of(Arena const& arena, Half const& half, int gemm, int set) {
  auto const& buffers = arena.set[set];
  gemm_sm90::Call call;
  call.problem = gemm == 0 ? gemm_sm90::Problem{buffers.tokens,
                                                buffers.hidden,
                                                buffers.model,
                                                buffers.x,
                                                buffers.w1,
                                                buffers.h,
                                                gemm_sm90::Activation::gelu}
                           : gemm_sm90::Problem{buffers.tokens,
                                                buffers.model,
                                                buffers.hidden,
                                                buffers.h,
                                                buffers.w2,
                                                buffers.y,
                                                gemm_sm90::Activation::none};
  call.band = half.band;
  call.most_blocks = half.most_blocks;
  return call;
}

std::string text(Half const& half) {
  return std::string(half.kernel->info.name) +
         (half.band == 0 ? std::string(" columns") : " bands of " + std::to_string(half.band)) +
         (half.most_blocks > 0 ? " persistent" : "");
}

// The same shape and grid with our kernel.
Half own(Half const& stock) {
  return {gemm_sm90::find_kernel(stock.kernel->info.name), stock.band, stock.most_blocks};
}

struct Ranked {
  Half half;
  double time;
};

// All configurations of one GEMM in stream order, fastest first.
std::vector<Ranked> rank(Arena const& arena, Timer& timer, std::vector<Kernel> const& kernels, int gemm,
                         char const* only = nullptr) {
  std::vector<Ranked> result;
  int const tokens = arena.set[0].tokens;
  for (Kernel const& kernel : kernels) {
    if (only != nullptr && std::strcmp(kernel.info.name, only) != 0) continue;
    if (kernel.info.tile_rows >= 2 * tokens) continue;
    for (int const band : {1, 0})
      for (int const blocks : {0, multiprocessors()}) {
        Half const half{&kernel, band, blocks};
        Variant variant{"", "", [&](cudaStream_t stream, int set) {
                          return kernel.launch(call_of(arena, half, gemm, set), stream);
                        }};
        result.push_back({half, timer.quick(variant, 3)});
      }
  }
  std::sort(result.begin(), result.end(), [](Ranked const& a, Ranked const& b) { return a.time < b.time; });
  return result;
}

// The best configurations of the best kernels, and beside each the order that completes rows early.
std::vector<Half> choose(std::vector<Ranked> const& ranked, std::size_t most) {
  std::vector<Half> result;
  auto add = [&](Half const& half) {
    for (Half const& old : result)
      if (old.kernel == half.kernel && old.band == half.band && old.most_blocks == half.most_blocks) return;
    result.push_back(half);
  };
  std::vector<Kernel const*> seen;
  for (Ranked const& one : ranked) {
    if (std::find(seen.begin(), seen.end(), one.half.kernel) != seen.end()) continue;
    seen.push_back(one.half.kernel);
    add(one.half);
    add({one.half.kernel, 1, 0});
    if (result.size() >= most) break;
  }
  return result;
}

Variant stock_variant(Arena const& arena, Half const& first, Half const& second, bool pdl) {
  return {pdl ? "cutlass+pdl" : "cutlass", text(first) + " > " + text(second),
          [&arena, first, second, pdl](cudaStream_t stream, int set) {
            cudaError_t const error = first.kernel->launch(call_of(arena, first, 0, set), stream);
            if (error != cudaSuccess) return error;
            auto call = call_of(arena, second, 1, set);
            call.programmatic = pdl;
            return second.kernel->launch(call, stream);
          }};
}

// Counters are the variant's own: its epochs go on from capture to capture.
Variant own_variant(Arena& arena, std::string name, PairPlan const& plan) {
  long long const words = (gemm_sm90::counters_of(plan, arena.set[0]) + 15) / 16 * 16;
  if (arena.counters_used + words * sets > arena.counter_words) {
    check(cudaErrorMemoryAllocation, "counters");
  }
  auto* const counters = arena.counters + arena.counters_used;
  arena.counters_used += words * sets;
  return {std::move(name),
          text(plan.first) + " > " + text(plan.second) +
              (plan.mechanism == Mechanism::pdl_tiles
                   ? plan.columns_per_semaphore == whole_row
                         ? std::string(", a row")
                         : ", " + std::to_string(plan.columns_per_semaphore) + " tiles"
                   : std::string()) +
              (plan.early_weights ? ", early weights" : ""),
          [&arena, plan, counters, words](cudaStream_t stream, int set) {
            auto buffers = arena.set[set];
            buffers.counters = counters + words * set;
            return gemm_sm90::launch_pair(plan, buffers, stream);
          }};
}

struct Timed {
  Variant variant;
  PairPlan plan;
  double time;
};

void keep_best(std::vector<Timed>& all, std::size_t count) {
  std::sort(all.begin(), all.end(), [](Timed const& a, Timed const& b) { return a.time < b.time; });
  if (all.size() > count) all.resize(count);
}

constexpr std::size_t finalists_of_class = 2;

// Our kernels in the three shapes that are fastest alone.
std::vector<Kernel const*> fastest_kernels(std::vector<Ranked> const& ranked) {
  std::vector<Kernel const*> result;
  for (Ranked const& one : ranked) {
    Kernel const* const kernel = own(one.half).kernel;
    if (result.size() < 3 && std::find(result.begin(), result.end(), kernel) == result.end())
      result.push_back(kernel);
  }
  return result;
}

// Bands and grids of the first GEMM with a usual second one, then of the second with the best first one.
template <class Try>
void descend(PairPlan plan, Try const& attempt) {
  plan.first.band = 0;
  plan.second.band = 4;
  for (Half PairPlan::*half : {&PairPlan::first, &PairPlan::second}) {
    double best = std::numeric_limits<double>::infinity();
    Half chosen = plan.*half;
    for (int const band : {1, 4, 6, 0})
      for (int const blocks : {0, multiprocessors()}) {
        PairPlan next = plan;
        (next.*half).band = band;
        (next.*half).most_blocks = blocks;
        double const time = attempt(next);
        if (time < best) {
          best = time;
          chosen = next.*half;
        }
      }
    plan.*half = chosen;
  }
}

void cublas_finalists(Arena const& arena, Timer& timer, Finalists& result) {
  auto const& shape = arena.set[0];
  std::shared_ptr<CublasGemm> const gemm[] = {
      std::make_shared<CublasGemm>(shape.tokens, shape.hidden, shape.model, true),
      std::make_shared<CublasGemm>(shape.tokens, shape.model, shape.hidden, false)};
  std::vector<std::pair<double, int>> ranked[2];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < gemm[half]->algorithms(); ++i) {
      Variant variant{"", "", [&](cudaStream_t stream, int set) {
                        auto const& b = arena.set[set];
                        return half == 0 ? gemm[0]->run(i, b.x, b.w1, b.h, stream)
                                         : gemm[1]->run(i, b.h, b.w2, b.y, stream);
                      }};
      ranked[half].push_back({timer.quick(variant, 3), i});
      ++result.tried;
    }
    std::sort(ranked[half].begin(), ranked[half].end());
  }
  std::vector<Timed> pairs;
  for (std::size_t one = 0; one < std::min<std::size_t>(3, ranked[0].size()); ++one)
    for (std::size_t other = 0; other < std::min<std::size_t>(3, ranked[1].size()); ++other) {
      int const first = ranked[0][one].second;
      int const second = ranked[1][other].second;
      Variant variant{
          "cublasLt", gemm[0]->describe(first) + " > " + gemm[1]->describe(second),
          [&arena, a = gemm[0], b = gemm[1], first, second](cudaStream_t stream, int set) {
            auto const& buffers = arena.set[set];
            cudaError_t const error = a->run(first, buffers.x, buffers.w1, buffers.h, stream);
            return error != cudaSuccess ? error : b->run(second, buffers.h, buffers.w2, buffers.y, stream);
          }};
      double const time = timer.quick(variant, 3);
      pairs.push_back({std::move(variant), {}, time});
      ++result.tried;
    }
  keep_best(pairs, finalists_of_class);
  for (Timed& one : pairs) result.variants.push_back(std::move(one.variant));
}

}  // namespace

Finalists find_finalists(Arena& arena, Timer& timer) {
  Finalists result;
  cublas_finalists(arena, timer, result);

  auto const first = rank(arena, timer, stock_kernels(), 0);
  auto const second = rank(arena, timer, stock_kernels(), 1);
  result.tried += static_cast<int>(first.size() + second.size());
  for (auto const* ranked : {&first, &second})
    for (Ranked const& one : *ranked)
      result.alone.push_back({ranked == &first ? 1 : 2, text(one.half), one.time});
  auto keep = [&](std::vector<Timed>& all) {
    result.tried += static_cast<int>(all.size());
    keep_best(all, finalists_of_class);
    for (Timed& one : all) result.variants.push_back(one.variant);
  };
  std::size_t const tops = std::min<std::size_t>(4, first.size());
  for (bool const pdl : {false, true}) {
    std::vector<Timed> pairs;
    for (std::size_t i = 0; i < tops; ++i)
      for (std::size_t j = 0; j < tops; ++j) {
        Variant variant = stock_variant(arena, first[i].half, second[j].half, pdl);
        double const time = timer.quick(variant, 3);
        pairs.push_back({std::move(variant), {}, time});
      }
    keep(pairs);
  }

  Kernel const stream_k = stock_stream_k();
  Variant split = stock_variant(arena, {&stream_k, 1, 0}, {&stream_k, 1, 0}, false);
  split.name = "stream-k";
  split.work = [&arena, stream_k](cudaStream_t stream, int set) {
    cudaError_t const error = stream_k.launch(call_of(arena, {&stream_k, 1, 0}, 0, set), stream);
    return error != cudaSuccess ? error : stream_k.launch(call_of(arena, {&stream_k, 1, 0}, 1, set), stream);
  };
  result.variants.push_back(std::move(split));

  auto const firsts = choose(first, 6);
  auto const seconds = choose(second, 6);
  struct Class {
    char const* name;
    Mechanism mechanism;
    int columns;
  };
  for (Class const one :
       {Class{"tessera pdl", Mechanism::pdl, 1}, Class{"tessera row", Mechanism::pdl_tiles, whole_row},
        Class{"tessera tile", Mechanism::pdl_tiles, 1}}) {
    std::vector<Timed> pairs;
    auto add = [&](PairPlan const& plan) {
      Variant variant = own_variant(arena, one.name, plan);
      double const time = timer.quick(variant, 2);
      pairs.push_back({std::move(variant), plan, time});
      return time;
    };
    if (one.mechanism == Mechanism::pdl) {
      for (Half const& a : firsts)
        for (Half const& b : seconds) add({own(a), own(b), one.mechanism, one.columns, true});
    } else {
      for (Kernel const* a : fastest_kernels(first))
        for (Kernel const* b : fastest_kernels(second))
          descend({{a}, {b}, one.mechanism, one.columns, true}, add);
    }
    result.tried += static_cast<int>(pairs.size());
    keep_best(pairs, 4);
    auto const best = pairs;
    for (Timed const& top : best) {
      PairPlan plan = top.plan;
      plan.early_weights = false;
      add(plan);
      plan.early_weights = true;
      if (one.mechanism == Mechanism::pdl_tiles && one.columns == 1)
        for (int const columns : {2, 4, 8}) {
          plan.columns_per_semaphore = columns;
          add(plan);
        }
    }
    keep(pairs);
  }
  return result;
}

std::vector<Variant> same_tiles(Arena& arena, Timer& timer, char const* shape) {
  auto const first = rank(arena, timer, stock_kernels(), 0, shape);
  auto const second = rank(arena, timer, stock_kernels(), 1, shape);
  std::vector<Variant> result;
  for (bool const pdl : {false, true}) {
    std::vector<Timed> stock;
    std::vector<Timed> synchronized_pairs;
    for (Ranked const& a : first)
      for (Ranked const& b : second) {
        if (!pdl) {
          Variant variant = stock_variant(arena, a.half, b.half, false);
          double const time = timer.quick(variant, 3);
          stock.push_back({std::move(variant), {}, time});
          PairPlan const plan{own(a.half), own(b.half), Mechanism::stream_order, 1, false};
          Variant mine = own_variant(arena, "tessera stream", plan);
          double const my_time = timer.quick(mine, 3);
          synchronized_pairs.push_back({std::move(mine), plan, my_time});
        }
      }
    if (pdl) {
      Kernel const* const kernel = gemm_sm90::find_kernel(shape);
      for (int const columns : {1, whole_row})
        descend({{kernel}, {kernel}, Mechanism::pdl_tiles, columns, true}, [&](PairPlan const& plan) {
          Variant variant = own_variant(arena, "tessera", plan);
          double const time = timer.quick(variant, 3);
          synchronized_pairs.push_back({std::move(variant), plan, time});
          return time;
        });
    }
    keep_best(stock, 1);
    keep_best(synchronized_pairs, pdl ? 2 : 1);
    for (Timed& one : stock) result.push_back(std::move(one.variant));
    for (Timed& one : synchronized_pairs) result.push_back(std::move(one.variant));
  }
  return result;
}

}  // namespace tessera::bench
