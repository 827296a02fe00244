// SPDX-License-Identifier: Apache-2.0
// The candidates for a chain whose tiles are given: every mechanism, policy and optimization, the most
// promising by simulation.
#include <algorithm>
#include <limits>

#include "bench/timer.hpp"
#include "tessera/simulate/rank.hpp"
#include "tessera/tune/tune.hpp"
#include "tune/gpu/samples.hpp"

namespace tessera {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Of each mechanism, so that a simulation that is wrong about one leaves the others in.
constexpr int k_of_a_mechanism = 6;

/// The most promising plans of each mechanism and of all together, none twice.
std::vector<Plan> promising(CheckedPipeline const& checked, MachineProfile const& machine) {
  std::vector<Plan> result;
  std::vector<std::string> known;
  auto const add = [&](PlanOptions options) {
    options.keep = k_of_a_mechanism;
    auto plans = rank_by_simulation(checked, machine, options);
    if (!plans) return;
    for (auto& plan : *plans) {
      auto name = plan_name(plan);
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      known.push_back(std::move(name));
      result.push_back(std::move(plan));
    }
  };
  add({});
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused}) {
    PlanOptions only;
    only.mechanisms = {mechanism};
    add(only);
  }
  return result;
}

}  // namespace

Expected<Tuned> tune(CheckedPipeline const& checked, MachineProfile const& machine, Subject const& subject,
                     GpuStream stream, TuneOptions const& options) {
  std::vector<TuneCandidate> candidates;
  std::vector<double> times;
  bench::Timer timer(stream, subject.sets, pieces_of_a_sample(subject));
  for (auto& plan : promising(checked, machine)) {
    auto const name = plan_name(plan);
    if (options.progress) options.progress(name, {});
    double time = never;
    if (auto const made = subject.make(plan)) {
      time = timer.quick(work_of(*made), options.quick ? 1 : 2);
      if (made->stalled()) time = never;
    }
    if (options.progress) options.progress(name, time);
    candidates.push_back({name, mechanism_text(plan), is_stream_order(plan), std::move(plan)});
    times.push_back(time);
  }
  return tune(subject, candidates, times, stream, options);
}

}  // namespace tessera
