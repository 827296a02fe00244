// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/switch_point.hpp"

#include <algorithm>
#include <limits>

#include "tessera/measure/statistics.hpp"

namespace tessera {

double concurrency(Level const& level) { return level.latency * level.throughput; }

double time_of(Level const& level, double sync, double bytes) {
  return level.latency + sync + std::max(0.0, bytes - concurrency(level)) / level.throughput;
}

SwitchPoint switch_point(Level const& few, Level const& many, double sync) {
  if (!(many.throughput > few.throughput))
    return {std::numeric_limits<double>::infinity(), SwitchRegime::never};
  // Eq. 4 holds where it leads to a size that the many still have in flight at once.
  double const within = (few.latency + sync) * few.throughput;
  if (within > concurrency(few) && within <= concurrency(many))
    return {within, SwitchRegime::within_concurrency};
  return {sync * many.throughput * few.throughput / (many.throughput - few.throughput),
          SwitchRegime::beyond_concurrency};
}

Level fit_level(std::vector<double> const& bytes, std::vector<double> const& time) {
  if (bytes.size() < 4 || bytes.size() != time.size()) return {};
  auto const half = static_cast<std::ptrdiff_t>(bytes.size() / 2);
  auto const line = fit_line({bytes.begin() + half, bytes.end()}, {time.begin() + half, time.end()});
  return {time.front(), line.slope > 0 ? 1 / line.slope : 0};
}

double crossing(std::vector<double> const& bytes, std::vector<double> const& few,
                std::vector<double> const& many) {
  std::size_t last = bytes.size();
  for (std::size_t i = bytes.size(); i-- > 0 && many[i] < few[i];) last = i;
  if (last == bytes.size()) return std::numeric_limits<double>::infinity();
  if (last == 0) return bytes.front();
  double const before = many[last - 1] - few[last - 1];
  double const after = few[last] - many[last];
  return bytes[last - 1] + (bytes[last] - bytes[last - 1]) * before / (before + after);
}

}  // namespace tessera
