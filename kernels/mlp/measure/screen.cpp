// SPDX-License-Identifier: Apache-2.0
#include "screen.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <regex>

#include "kernels/gemm_sm90/candidates.hpp"
#include "kernels/mlp/candidates.hpp"
#include "tessera/tune/choose.hpp"

namespace tessera::mlp {
namespace {

using gemm_sm90::Mechanism;

struct Ranked {
  Half half;
  double time;
};

// A half that is slower than this alone does not make a pair fast.
constexpr double hopeless = 1.3;
// Of the pairs that gemm_sm90 itself proposes.
constexpr std::size_t promising = 120;
constexpr std::size_t most_shapes = 5;
// Pairs of shapes whose orders of tiles are tried, in stream order or PDL.
constexpr std::size_t refined = 4;

/// Without what it says of orders and grids: the same for the same kernels overlapped the same way.
std::string kind_of(std::string const& name) {
  static std::regex const order(" band [0-9]+ blocks [0-9]+");
  return std::regex_replace(name, order, "");
}

class Screening {
 public:
  Screening(Arena& arena, bench::Timer& timer, Shape const& shape, int samples, Progress const& progress)
      : arena_(arena), timer_(timer), shape_(shape), samples_(samples), progress_(progress) {}

  Expected<Screened> run() {
    auto const first_lt = cublaslt_halves(shape_, Which::first);
    if (!first_lt) return tl::make_unexpected(first_lt.error());
    auto const second_lt = cublaslt_halves(shape_, Which::second);
    if (!second_lt) return tl::make_unexpected(second_lt.error());
    auto const lt1 = rank(*first_lt), lt2 = rank(*second_lt);
    auto const own1 = rank(gemm_sm90_halves(shape_, Which::first));
    auto const own2 = rank(gemm_sm90_halves(shape_, Which::second));
    pairs(top(lt1, 4), top(lt2, 4));
    pairs(top(lt1, 2), top(own2, 3));
    for (auto const& first : top(lt1, 2))
      for (auto const& second : top(own2, 3))
        if (auto candidate = mixed_pair(shape_, first, second)) attempt(std::move(*candidate));
    pairs(top(own1, 3), top(lt2, 2));
    pairs(top(own1, 3), top(own2, 3));
    for (auto const& first : top(own1, 4))
      for (auto const& second : top(own2, 4))
        for (bool const early : {true, false})
          attempt_tiled({first.tiles, second.tiles, Mechanism::pdl, 1, early, early});
    // Other shapes than those of the fastest halves, which may be one shape in many orders.
    for (auto const* first : fastest_shapes(own1, most_shapes))
      for (auto const* second : fastest_shapes(own2, most_shapes))
        for (auto const mechanism : {Mechanism::pdl, Mechanism::stream_order})
          attempt_shapes(own1, own2, first, second, mechanism);
    for (auto const& plan : gemm_sm90::candidates(shape_, multiprocessors(), promising)) attempt_tiled(plan);
    for (auto const& first : fastest_shapes(own1, 2))
      for (auto const& second : fastest_shapes(own2, 2))
        for (int const tiles : {1, whole_row}) descend(own1, own2, first, second, tiles);
    refine();
    for (auto& one : single_launches(shape_)) attempt(std::move(one));
    return std::move(result_);
  }

 private:
  double attempt(Candidate candidate) {
    double const time = time_of(candidate);
    result_.candidates.push_back(std::move(candidate));
    result_.times.push_back(time);
    return time;
  }

  double time_of(Candidate const& candidate) {
    ++result_.tried;
    if (progress_) progress_(candidate.name, {});
    arena_.give_back_counters();
    double time = timer_.quick(arena_.work(candidate), samples_);
    if (arena_.gave_up()) time = std::numeric_limits<double>::infinity();
    if (progress_) progress_(candidate.name, time);
    return time;
  }

  double attempt_tiled(gemm_sm90::PairPlan const& plan) {
    auto candidate = tiled_pair(shape_, plan);
    if (!candidate) return std::numeric_limits<double>::infinity();
    double const time = attempt(std::move(*candidate));
    if (plan.mechanism != Mechanism::pdl_tiles) whole_.push_back({plan, time});
    return time;
  }

  /// Both in the order that was fastest alone.
  void attempt_shapes(std::vector<Ranked> const& firsts, std::vector<Ranked> const& seconds,
                      gemm_sm90::Kernel const* first, gemm_sm90::Kernel const* second, Mechanism mechanism) {
    auto const of = [](std::vector<Ranked> const& ranked, gemm_sm90::Kernel const* kernel) {
      return std::find_if(ranked.begin(), ranked.end(),
                          [&](Ranked const& one) { return one.half.tiles.kernel == kernel; });
    };
    bool const early = mechanism == Mechanism::pdl;
    attempt_tiled(
        {of(firsts, first)->half.tiles, of(seconds, second)->half.tiles, mechanism, 1, early, early});
  }

  /// Other orders for the fastest pairs of shapes.
  void refine() {
    std::stable_sort(whole_.begin(), whole_.end(),
                     [](Whole const& a, Whole const& b) { return a.time < b.time; });
    std::vector<gemm_sm90::PairPlan> bases;
    for (auto const& one : whole_) {
      bool const known = std::any_of(bases.begin(), bases.end(), [&](gemm_sm90::PairPlan const& base) {
        return base.first.kernel == one.plan.first.kernel && base.second.kernel == one.plan.second.kernel;
      });
      if (!known && bases.size() < refined) bases.push_back(one.plan);
    }
    for (auto plan : bases)
      for (int const first : {0, 1, 8})
        for (int const second : {0, 1, 8}) {
          plan.first.band = first;
          plan.second.band = second;
          plan.first.most_blocks = plan.second.most_blocks = multiprocessors();
          attempt_tiled(plan);
        }
  }

  std::vector<Ranked> rank(std::vector<Half> const& halves) {
    std::vector<Ranked> ranked;
    for (auto const& half : halves) {
      Candidate alone;
      alone.launch = half.launch;
      alone.name = half.name;
      alone.counter_words = half.counter_words;
      double const time = time_of(alone);
      if (time < std::numeric_limits<double>::infinity()) ranked.push_back({half, time});
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](Ranked const& a, Ranked const& b) { return a.time < b.time; });
    return ranked;
  }

  static std::vector<Half> top(std::vector<Ranked> const& ranked, std::size_t count) {
    std::vector<Half> best;
    for (auto const& one : ranked)
      if (best.size() < count && one.time <= hopeless * ranked.front().time) best.push_back(one.half);
    return best;
  }

  static std::vector<gemm_sm90::Kernel const*> fastest_shapes(std::vector<Ranked> const& ranked,
                                                              std::size_t count) {
    std::vector<gemm_sm90::Kernel const*> shapes;
    for (auto const& one : ranked)
      if (shapes.size() < count &&
          std::find(shapes.begin(), shapes.end(), one.half.tiles.kernel) == shapes.end())
        shapes.push_back(one.half.tiles.kernel);
    return shapes;
  }

  void pairs(std::vector<Half> const& firsts, std::vector<Half> const& seconds) {
    for (auto const& first : firsts)
      for (auto const& second : seconds) attempt(stream_pair(first, second));
  }

  /// Orders and grids of the first GEMM with the fastest of the second, then of the second with the best
  /// first.
  void descend(std::vector<Ranked> const& firsts, std::vector<Ranked> const& seconds,
               gemm_sm90::Kernel const* first, gemm_sm90::Kernel const* second, int tiles) {
    auto const of = [](std::vector<Ranked> const& ranked, gemm_sm90::Kernel const* kernel) {
      std::vector<Half> halves;
      for (auto const& one : ranked)
        if (one.half.tiles.kernel == kernel) halves.push_back(one.half);
      return halves;
    };
    auto const all1 = of(firsts, first), all2 = of(seconds, second);
    if (all1.empty() || all2.empty()) return;
    gemm_sm90::PairPlan plan{all1.front().tiles, all2.front().tiles, Mechanism::pdl_tiles, tiles, true, true};
    auto const improve = [&](gemm_sm90::Half& half, std::vector<Half> const& all) {
      auto best = half;
      double least = std::numeric_limits<double>::infinity();
      for (auto const& one : all) {
        half = one.tiles;
        if (double const time = attempt_tiled(plan); time < least) {
          least = time;
          best = half;
        }
      }
      half = best;
    };
    improve(plan.first, all1);
    improve(plan.second, all2);
    plan.early_weights = plan.chained = false;
    attempt_tiled(plan);
    if (tiles != 1) return;
    plan.early_weights = plan.chained = true;
    plan.columns_per_semaphore = 4;
    attempt_tiled(plan);
  }

  Arena& arena_;
  bench::Timer& timer_;
  Shape shape_;
  int samples_;
  Progress const& progress_;
  Screened result_;
  struct Whole {
    gemm_sm90::PairPlan plan;
    double time;
  };
  std::vector<Whole> whole_;  ///< tried without semaphores
};

}  // namespace

Expected<Screened> screen(Arena& arena, bench::Timer& timer, Shape const& shape, int samples,
                          Progress const& progress) {
  return Screening(arena, timer, shape, samples, progress).run();
}

std::vector<Candidate> finalists(Screened const& screened, std::size_t keep) {
  std::vector<std::size_t> order(screened.times.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return screened.times[a] < screened.times[b]; });
  auto times = screened.times;
  std::map<std::string, int> seen;
  for (auto const i : order) {
    auto const& name = screened.candidates[i].name;
    auto const kind = kind_of(name);
    bool const again = kind != name && ++seen[name] > 1;  // tried twice
    if (again || ++seen[kind] > 2) times[i] = std::numeric_limits<double>::infinity();
  }
  std::vector<bool> chosen(screened.candidates.size());
  for (auto const source : {Source::cublaslt, Source::gemm_sm90, Source::mixed, Source::skinny}) {
    std::vector<bool> of_source;
    for (auto const& one : screened.candidates) of_source.push_back(one.source == source);
    for (auto const i : survivors(times, of_source, keep, 2)) chosen[i] = true;
  }
  std::vector<Candidate> result;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) result.push_back(screened.candidates[i]);
  return result;
}

}  // namespace tessera::mlp
