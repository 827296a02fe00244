// SPDX-License-Identifier: Apache-2.0
#include "entry.hpp"

#include "arguments.hpp"
#include "tools/today.hpp"

namespace tessera::command {

TuneEntry entry_of(TuneKey const& key, std::string const& name, Tuned const& tuned, Load load) {
  auto const& best = tuned.winner();
  auto const& base = tuned.finalists[tuned.baseline];
  TuneEntry entry;
  entry.key = key;
  entry.workload_name = name;
  entry.plan = best.candidate.plan;
  entry.hot_us = best.measurement.hot_us;
  entry.cool_us = best.measurement.cool_us;
  entry.baseline = base.candidate.name;
  entry.baseline_hot_us = base.measurement.hot_us;
  entry.baseline_cool_us = base.measurement.cool_us;
  entry.load = to_text(load);
  entry.date = today();
  return entry;
}

}  // namespace tessera::command
