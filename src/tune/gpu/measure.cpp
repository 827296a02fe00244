// SPDX-License-Identifier: Apache-2.0
// Candidates in turns, and the decision.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "bench/timer.hpp"
#include "tessera/measure/statistics.hpp"
#include "tessera/tune/tune.hpp"
#include "tune/gpu/samples.hpp"
#include "tune/plan_name.hpp"

namespace tessera {
namespace {

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

/// Indices of the candidates that are measured better: the `keep` fastest, of each kernels and way to overlap
/// them no more than two, and never fewer than two of each group.
std::vector<std::size_t> finalists(std::vector<TuneCandidate> const& candidates, std::vector<double> times,
                                   std::size_t keep) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return times[a] < times[b]; });
  std::map<std::string, int> seen;
  for (auto const i : order)
    if (++seen[kernels_of(candidates[i].plan)] > 2) times[i] = std::numeric_limits<double>::infinity();
  std::vector<bool> chosen(candidates.size());
  std::vector<std::string> groups;
  for (auto const& one : candidates)
    if (std::find(groups.begin(), groups.end(), one.group) == groups.end()) groups.push_back(one.group);
  for (auto const& group : groups) {
    std::vector<bool> of_group;
    for (auto const& one : candidates) of_group.push_back(one.group == group);
    for (auto const i : survivors(times, of_group, keep, 2)) chosen[i] = true;
  }
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) result.push_back(i);
  return result;
}

std::vector<TuneCandidate> pick(std::vector<TuneCandidate> const& all,
                                std::vector<std::size_t> const& which) {
  std::vector<TuneCandidate> result;
  for (auto const i : which) result.push_back(all[i]);
  return result;
}

/// Candidates that let a wait give up when they run alone are added to `wrong`, and were not measured.
/// Nothing is said of the others' times then: what the first left in memory that all share (a Scratch) may
/// have let them give up, too.
Expected<std::vector<Finalist>> measure_once(Subject const& subject,
                                             std::vector<TuneCandidate> const& candidates,
                                             std::vector<bool>& wrong, GpuStream stream, int hot_rounds,
                                             int cool_rounds) {
  int const pieces = pieces_of_a_sample(subject);
  bench::Timer timer(stream, subject.sets, pieces);
  std::vector<Finalist> finalists;
  std::vector<Launchable> launchables;  // they own what the graphs use
  std::vector<bench::Timed> timed;
  timed.reserve(candidates.size());
  finalists.reserve(candidates.size());
  std::vector<std::pair<bench::Timed*, Finalist*>> running;
  for (auto const& candidate : candidates) {
    auto& one = finalists.emplace_back();
    one.candidate = candidate;
    one.measurement.candidate = candidate.name;
    one.measurement.baseline = candidate.baseline;
    one.relative_error = std::numeric_limits<double>::quiet_NaN();
    if (wrong[finalists.size() - 1]) continue;
    auto made = subject.make(candidate.plan);
    if (!made) continue;
    one.relative_error = made->error();
    one.measurement.right = one.relative_error <= k_allowed_error;
    if (!one.measurement.right) continue;
    auto& work = timed.emplace_back(bench::Timed{work_of(*made)});
    launchables.push_back(std::move(*made));
    if (timer.capture(work)) running.push_back({&work, &one});
  }
  std::vector<bench::Timed*> all;
  for (auto const& [work, one] : running) all.push_back(work);
  timer.hot_rounds(all, 2);
  for (auto* const work : all) work->hot.clear();
  timer.hot_rounds(all, hot_rounds, warm_us);
  // Fewer pauses for long work, of which a few samples say as much.
  double round_us = 0;
  for (auto const* const work : all) round_us += cool_time * pieces * median(work->hot);
  int const affordable =
      std::max(std::min(least_cool_rounds, cool_rounds), static_cast<int>(longest_cool_us / (round_us + 1)));
  timer.cool_rounds(all, std::min(cool_rounds, affordable));
  auto const launchable = [&](bench::Timed* work) -> Launchable& {
    return launchables[static_cast<std::size_t>(work - timed.data())];
  };
  std::vector<std::pair<bench::Timed*, Finalist*>> suspects, guilty;
  bool const answers = fine(timer).has_value();
  for (auto const& one : running)
    if (answers && launchable(one.first).stalled()) suspects.push_back(one);
  for (auto const& one : suspects) {
    timer.hot_rounds({one.first}, 2);
    if (launchable(one.first).stalled()) guilty.push_back(one);
  }
  for (auto const& one : guilty.empty() ? suspects : guilty)
    wrong[static_cast<std::size_t>(one.second - finalists.data())] = true;
  if (auto ok = fine(timer); !ok) {
    abandon(std::move(launchables));
    return tl::make_unexpected(ok.error());
  }
  for (auto* const work : all) timer.release(*work);
  if (!suspects.empty()) return finalists;
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

}  // namespace

Expected<std::vector<Finalist>> measure(Subject const& subject, std::vector<TuneCandidate> const& candidates,
                                        GpuStream stream, int hot_rounds, int cool_rounds) {
  std::vector<bool> wrong(candidates.size());
  for (;;) {
    auto const known = wrong;
    auto measured = measure_once(subject, candidates, wrong, stream, hot_rounds, cool_rounds);
    if (!measured || wrong == known) return measured;
  }
}

Expected<Tuned> tune(Subject const& subject, std::vector<TuneCandidate> const& candidates,
                     std::vector<double> const& times, GpuStream stream, TuneOptions const& options) {
  // Twice: more samples for fewer. What is fast hot need not be cool.
  auto const some = pick(candidates, finalists(candidates, times, options.quick ? 8 : 28));
  auto semifinal = measure(subject, some, stream, options.quick ? 3 : 5, options.quick ? 1 : 2);
  if (!semifinal) return tl::make_unexpected(semifinal.error());
  std::vector<TuneCandidate> left;
  std::vector<Measurement> scores;
  for (std::size_t i = 0; i < some.size(); ++i)
    if ((*semifinal)[i].measurement.right) {
      left.push_back(some[i]);
      scores.push_back((*semifinal)[i].measurement);
    }
  std::vector<bool> chosen(left.size());
  for (auto const load : {Load::steady, Load::bursts, Load::any}) {
    std::vector<double> by_load;
    for (auto const& one : scores) by_load.push_back(score(one, load));
    for (auto const i : finalists(left, by_load, options.quick ? 2 : 4)) chosen[i] = true;
  }
  std::vector<TuneCandidate> last;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (chosen[i]) last.push_back(left[i]);
  if (options.progress) options.progress("the fastest in turns", {});
  auto measured = measure(subject, last, stream, options.quick ? 7 : 17, options.quick ? 3 : 9);
  if (!measured) return tl::make_unexpected(measured.error());

  Tuned result;
  result.finalists = std::move(*measured);
  result.tried = static_cast<int>(candidates.size());
  std::stable_sort(
      result.finalists.begin(), result.finalists.end(),
      [](Finalist const& a, Finalist const& b) { return score(a.measurement) < score(b.measurement); });
  std::vector<Measurement> measurements;
  for (auto const& one : result.finalists) measurements.push_back(one.measurement);
  auto const decision = decide(measurements, options.least_gain, options.load);
  if (decision.chosen == Decision::none) {
    Diagnostic d;
    d.code = "E0535";
    d.message =
        fmt::format("no candidate of {} computes it right",
                    candidates.empty() ? std::string("the workload") : candidates.front().plan.pipeline.name);
    for (auto const& one : semifinal.value())
      if (d.notes.size() < 3)
        d.notes.push_back(fmt::format("{}: relative error {:.1e}", one.candidate.name, one.relative_error));
    d.suggestion = "run the tests labelled gpu on this machine";
    return refuse(std::move(d));
  }
  result.chosen = decision.chosen;
  result.baseline = decision.baseline == Decision::none ? decision.chosen : decision.baseline;
  result.reason = decision.reason;
  return result;
}

}  // namespace tessera
