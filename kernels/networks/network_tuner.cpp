// SPDX-License-Identifier: Apache-2.0
// Which layers are faster in a chain: by measurement of each alone, and then of whole networks.
#include <fmt/format.h>

#include <cmath>

#include "kernels/networks/step_runs.hpp"

namespace tessera::networks {
namespace {

bool alike(convolution::LayerChain const& a, convolution::LayerChain const& b) {
  return a.height == b.height && a.width == b.width && a.channels == b.channels && a.layers == b.layers;
}

/// Chains and their times: those that are alike are measured once.
class ChainTimes {
 public:
  ChainTimes(NetworkState const& state, NetworkOptions const& options) : state_(state), options_(options) {}

  /// Below zero: it cannot be made, or did not run.
  double of(Step const& step) {
    auto const chain = chain_of(state_.network, state_.images, step.first, step.end);
    if (!chain) return -1;
    for (auto const& [other, us] : known_)
      if (alike(other, *chain)) return us;
    double us = -1;
    if (auto running = prepare(state_, step, options_)) {
      double const found = microseconds(state_, {&*running});
      if (running->chain->finish() && std::isfinite(found)) us = found;
    }
    known_.emplace_back(*chain, us);
    return us;
  }

 private:
  NetworkState const& state_;
  NetworkOptions const& options_;
  std::vector<std::pair<convolution::LayerChain, double>> known_;
};

/// Of the whole network; below zero: it does not run.
double time_of(NetworkState const& state, std::vector<Step> const& steps, NetworkOptions const& options) {
  std::vector<RunningStep> all;
  for (auto const& step : steps) {
    auto running = prepare(state, step, options);
    if (!running) return -1;
    all.push_back(std::move(*running));
  }
  std::vector<RunningStep*> pointers;
  for (auto& one : all) pointers.push_back(&one);
  double const us = microseconds(state, pointers);
  for (auto& one : all)
    if (one.chain && !one.chain->finish()) return -1;
  return std::isfinite(us) ? us : -1;
}

}  // namespace

Expected<std::vector<Step>> tuned_steps(NetworkState& state, NetworkOptions const& options) {
  auto const& network = state.network;
  if (auto ok = tune_plans(state); !ok) return tl::make_unexpected(ok.error());
  ChainTimes chains(state, options);
  auto const cost = [&](Step const& step) {
    if (step.chain) return chains.of(step);
    // Pooling is the same in all ways.
    if (network.layers[step.first].kind != Kind::convolution) return 0.0;
    return state.plans->us[static_cast<std::size_t>(state.plans->kind_of[step.first])];
  };
  auto const plain = steps_with(network, {});
  auto const mixed = cheapest_steps(network, possible_chains(network, state.images), cost);
  if (mixed.empty() || mixed == plain) {
    state.decisions.push_back("no chain is faster than cuDNN's plans for its layers");
    return plain;
  }
  // A layer may be faster alone and slower among others: what counts is the whole.
  double const plain_us = time_of(state, plain, options), mixed_us = time_of(state, mixed, options);
  state.decisions.push_back(
      fmt::format("the whole: {:.2f} us by cuDNN, {:.2f} us as {}", plain_us, mixed_us, to_string(mixed)));
  return mixed_us >= 0 && (plain_us < 0 || mixed_us < plain_us) ? mixed : plain;
}

}  // namespace tessera::networks
