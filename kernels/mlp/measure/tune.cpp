// SPDX-License-Identifier: Apache-2.0
#include "tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/common/refusal.hpp"
#include "kernels/mlp/candidates.hpp"
#include "screen.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;
using kernels::refusal;

constexpr double allowed_error = 2e-3;
// Seen on an H200; here it only says how much work fills a sample.
constexpr double usual_bytes = 4.2e12;
constexpr double sample_us = 600;
// Before a hot sample: the power limit is felt after milliseconds.
constexpr double warm_us = 5000;
// A cool sample's time in graphs: two of them, and the pause after each (Timer::cool_rounds).
constexpr double cool_time = 2 + 2 * 8;
constexpr double longest_cool_us = 6e6;
constexpr int least_cool_rounds = 5;

/// Of the median of so many samples, from their 10 and 90 per cent quantiles (2.56 deviations of a normal
/// distribution apart; the median's own deviation is 1.25 times that of a mean).
double noise_of(double low, double median, double high, std::size_t samples) {
  return 1.25 * (high - low) / 2.56 / std::sqrt(static_cast<double>(samples)) / median;
}

}  // namespace

int pieces_of_a_sample(Shape const& shape, int sets) {
  double const one = floor_us(shape, peak_flops, usual_bytes);
  int const rounds = static_cast<int>(sample_us / (one * sets)) + 1;
  return rounds * sets;
}

double floor_us(Shape const& shape, double flops_per_second, double bytes_per_second) {
  double const tokens = shape.tokens, model = shape.model, hidden = shape.hidden;
  double const up = shape.form == Form::swiglu ? 2 : 1;
  auto const time = [&](double rows_of_weights, double in, double out) {
    double const flops = 2 * tokens * rows_of_weights * in;
    double const bytes = 2 * (rows_of_weights * in + tokens * in + tokens * out);
    return std::max(flops / flops_per_second, bytes / bytes_per_second);
  };
  return 1e6 * (time(up * hidden, model, hidden) + time(model, hidden, model));
}

Expected<std::vector<Finalist>> measure(Arena& arena, Shape const& shape,
                                        std::vector<Candidate> const& candidates, int hot_rounds,
                                        int cool_rounds) {
  bench::Timer timer(arena.stream(), arena.sets(), pieces_of_a_sample(shape, arena.sets()));
  std::vector<Finalist> finalists;
  std::vector<bench::Timed> timed;
  timed.reserve(candidates.size());
  finalists.reserve(candidates.size());
  std::vector<std::pair<bench::Timed*, Finalist*>> running;
  arena.give_back_counters();
  for (auto const& candidate : candidates) {
    auto& one = finalists.emplace_back();
    one.measurement.candidate = candidate.name;
    one.measurement.baseline = candidate.is_baseline();
    one.relative_error = arena.verify(candidate);
    one.measurement.right = one.relative_error <= allowed_error;
    if (!one.measurement.right) continue;
    auto& work = timed.emplace_back(bench::Timed{arena.work(candidate)});
    if (timer.capture(work)) running.push_back({&work, &one});
  }
  std::vector<bench::Timed*> all;
  for (auto const& [work, one] : running) all.push_back(work);
  timer.hot_rounds(all, 2);
  for (auto* const work : all) work->hot.clear();
  timer.hot_rounds(all, hot_rounds, warm_us);
  // Fewer pauses for long work, of which a few samples say as much.
  double round_us = 0;
  int const pieces = pieces_of_a_sample(shape, arena.sets());
  for (auto const* const work : all) round_us += cool_time * pieces * median(work->hot);
  int const affordable =
      std::max(std::min(least_cool_rounds, cool_rounds), static_cast<int>(longest_cool_us / (round_us + 1)));
  timer.cool_rounds(all, std::min(cool_rounds, affordable));
  for (auto* const work : all) timer.release(*work);
  if (timer.error() != cudaSuccess) return cuda_failed(timer.error(), "measuring");
  bench::level(all, &bench::Timed::hot);
  bench::level(all, &bench::Timed::cool);
  for (auto const& [work, one] : running) {
    auto& m = one->measurement;
    m.hot_us = median(work->hot);
    m.cool_us = median(work->cool);
    one->hot_low = quantile(work->hot, 0.1);
    one->hot_high = quantile(work->hot, 0.9);
    m.noise = noise_of(one->hot_low, m.hot_us, one->hot_high, work->hot.size());
  }
  return finalists;
}

Expected<TunedShape> tune(Arena& arena, Shape const& shape, TuneOptions const& options) {
  if (auto const right = check(shape); !right) return tl::make_unexpected(right.error());
  if (auto const started = arena.start(shape.tokens); !started) return tl::make_unexpected(started.error());
  bench::Timer timer(arena.stream(), arena.sets(), pieces_of_a_sample(shape, arena.sets()));
  auto const screened = screen(arena, timer, shape, options.quick ? 1 : 2, options.progress);
  if (!screened) return tl::make_unexpected(screened.error());
  if (timer.error() != cudaSuccess) return cuda_failed(timer.error(), "trying the candidates");

  // Twice: more samples for fewer. What is fast hot need not be cool.
  auto const some = finalists(*screened, options.quick ? 8 : 28);
  auto semifinal = measure(arena, shape, some, options.quick ? 3 : 5, options.quick ? 1 : 2);
  if (!semifinal) return tl::make_unexpected(semifinal.error());
  Screened left;
  std::vector<std::string> last_names;
  for (auto const load : {Load::steady, Load::bursts, Load::any}) {
    left = {};
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!(*semifinal)[i].measurement.right) continue;
      left.candidates.push_back(some[i]);
      left.times.push_back(score((*semifinal)[i].measurement, load));
    }
    for (auto const& one : finalists(left, options.quick ? 2 : 4)) last_names.push_back(one.name);
  }
  std::vector<Candidate> last;
  for (auto const& one : left.candidates)
    if (std::find(last_names.begin(), last_names.end(), one.name) != last_names.end()) last.push_back(one);
  if (options.progress) options.progress("the fastest in turns", {});
  auto measured = measure(arena, shape, last, options.quick ? 7 : 17, options.quick ? 3 : 9);
  if (!measured) return tl::make_unexpected(measured.error());

  std::vector<Measurement> measurements;
  for (auto const& one : *measured) measurements.push_back(one.measurement);
  auto const decision = decide(measurements, options.least_gain, options.load);
  if (decision.chosen == Decision::none)
    return refusal("E0535",
                   fmt::format("no candidate computes {} tokens of {} x {} right", shape.tokens, shape.model,
                               shape.hidden),
                   "run the tests labelled gpu on this machine");
  TunedShape result;
  auto const& chosen = measurements[decision.chosen];
  auto const& baseline =
      measurements[decision.baseline == Decision::none ? decision.chosen : decision.baseline];
  result.size = {shape.tokens,       chosen.candidate, chosen.hot_us,    chosen.cool_us,
                 baseline.candidate, baseline.hot_us,  baseline.cool_us, ""};
  result.reason = decision.reason;
  result.tried = screened->tried;
  result.finalists = std::move(*measured);
  std::stable_sort(
      result.finalists.begin(), result.finalists.end(),
      [](Finalist const& a, Finalist const& b) { return score(a.measurement) < score(b.measurement); });
  return result;
}

}  // namespace tessera::mlp
