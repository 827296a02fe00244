// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace tessera {
namespace {

bool is_time(double us) { return std::isfinite(us) && us > 0; }

bool usable(Measurement const& one) { return one.right && is_time(one.hot_us) && is_time(one.cool_us); }

/// By score, and where two are alike by what else a decision looks at: it must not depend on their order.
bool better(Measurement const& a, Measurement const& b, Load load) {
  auto const key = [&](Measurement const& one) {
    return std::tuple(score(one, load), one.hot_us, one.cool_us, one.noise);
  };
  return key(a) < key(b);
}

/// The best score among those that `may` admits.
template <class May>
std::size_t best_of(std::vector<Measurement> const& measured, Load load, May const& may) {
  std::size_t best = Decision::none;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (usable(measured[i]) && may(measured[i]) &&
        (best == Decision::none || better(measured[i], measured[best], load)))
      best = i;
  return best;
}

}  // namespace

char const* to_text(Load load) {
  return load == Load::any ? "any" : load == Load::steady ? "steady" : "bursts";
}

double score(Measurement const& one) { return std::sqrt(one.hot_us * one.cool_us); }

double score(Measurement const& one, Load load) {
  return load == Load::any ? score(one) : load == Load::steady ? one.hot_us : one.cool_us;
}

Decision decide(std::vector<Measurement> const& measured, double least_gain, Load load) {
  Decision decision;
  decision.baseline = best_of(measured, load, [](Measurement const& one) { return one.baseline; });
  if (decision.baseline == Decision::none) {
    decision.chosen = best_of(measured, load, [](Measurement const&) { return true; });
    decision.reason = decision.chosen == Decision::none ? "no candidate gave a right result"
                                                        : "the fastest; no baseline gave a right result";
    return decision;
  }
  auto const& base = measured[decision.baseline];
  auto const wins = [&](Measurement const& one) {
    double const doubt = std::max({least_gain, one.noise, base.noise});
    bool const loses = load == Load::any && (one.hot_us > base.hot_us || one.cool_us > base.cool_us);
    return !one.baseline && !loses && score(one, load) * (1 + doubt) < score(base, load);
  };
  decision.chosen = best_of(measured, load, wins);
  if (decision.chosen != Decision::none) {
    decision.reason = fmt::format("{:.1f} % faster than the best baseline",
                                  100 * (score(base, load) / score(measured[decision.chosen], load) - 1));
    return decision;
  }
  decision.chosen = decision.baseline;
  auto const other = best_of(measured, load, [](Measurement const& one) { return !one.baseline; });
  decision.reason = other == Decision::none
                        ? "nothing else gave a right result"
                        : fmt::format("the best of the others is {:+.1f} % in time: not faster beyond doubt",
                                      100 * (score(measured[other], load) / score(base, load) - 1));
  return decision;
}

std::vector<std::size_t> survivors(std::vector<double> const& times, std::vector<bool> const& is_baseline,
                                   std::size_t keep, std::size_t baselines) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (is_time(times[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  std::vector<std::size_t> kept;
  std::size_t kept_baselines = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    bool const seeded = is_baseline[order[place]] && kept_baselines < baselines;
    if (place >= keep && !seeded) continue;
    kept.push_back(order[place]);
    kept_baselines += is_baseline[order[place]] ? 1 : 0;
  }
  return kept;
}

}  // namespace tessera
