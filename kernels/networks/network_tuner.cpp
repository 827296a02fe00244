// SPDX-License-Identifier: Apache-2.0
// Which layers are faster in a chain: by measurement of each alone, and then of whole networks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include "kernels/convolution/layer_cut.hpp"
#include "kernels/networks/step_runs.hpp"

namespace tessera::networks {
namespace {

/// A chain is not tried where a part of it took so many times as long as its layers one by one, by cuDNN or
/// in launches of their own: in a longer one it saves a launch, which is a microsecond or two.
constexpr double k_hopeless = 1.2;
constexpr double k_launch_us = 4;  ///< of a chain that is alone: from its launch to its first multiplication

constexpr std::size_t k_cuts = 16;   ///< of a layer, that are tried
constexpr double k_clearly = 0.997;  ///< of the time: less is how far two measurements are apart

int sms_of_device() {
  int device = 0, sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 132;
  return sms;
}

/// What steps take. Chains that are alike are measured once.
class StepTimes {
 public:
  StepTimes(NetworkState const& state, NetworkOptions const& options, std::vector<Step> const& chains)
      : state_(state), options_(options), chains_(chains) {}

  /// Microseconds; below zero: it cannot be made, did not run, or is not worth trying.
  double of(Step const& step) {
    if (step.launch) return launch(step);
    if (!step.chain) return alone(step.first);
    auto const chain = chain_of(state_.network, state_.images, step.first, step.end);
    if (!chain || is_hopeless(step)) return -1;
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
  /// By the fastest of some cuts, which the plans keep. Layers that are alike are measured once.
  double launch(Step const& step) {
    auto const layer = chain_of(state_.network, state_.images, step.first, step.end);
    if (!layer) return -1;
    for (auto const& [other, us] : launches_)
      if (alike(other, *layer)) return us;
    double least = -1;
    auto const cuts = convolution::layer_cuts({layer->height, layer->width, layer->channels},
                                              layer->layers.front(), layer->images, sms_of_device(), k_cuts);
    convolution::Cut best;
    for (auto const& cut : cuts) {
      auto running = prepare(state_, step, options_, &cut);
      if (!running) continue;
      double const us = microseconds(state_, {&*running});
      if (std::isfinite(us) && (least < 0 || us < least)) least = us, best = cut;
    }
    if (least >= 0) state_.plans->cuts.emplace_back(*layer, best);
    launches_.emplace_back(*layer, least);
    return least;
  }
  /// Pooling is the same in all ways.
  double alone(std::size_t layer) const {
    auto const& plans = *state_.plans;
    if (state_.network.layers[layer].kind != Kind::convolution) return 0;
    return plans.us[static_cast<std::size_t>(plans.kind_of[layer])];
  }
  bool is_hopeless(Step const& step) {
    auto const inside = [](Step const& part, Step const& whole) {
      return !(part == whole) && part.first >= whole.first && part.end <= whole.end;
    };
    return std::any_of(chains_.begin(), chains_.end(), [&](Step const& part) {
      bool const shortest =
          std::none_of(chains_.begin(), chains_.end(), [&](Step const& one) { return inside(one, part); });
      if (!inside(part, step) || !shortest) return false;
      double sum = 0;
      for (auto n = part.first; n < part.end; ++n) {
        double const own = launch({n, n + 1, false, true}), by_cudnn = alone(n);
        sum += own >= 0 ? std::min(own, by_cudnn) : by_cudnn;
      }
      double const us = of(part);
      return us < 0 || us > k_hopeless * sum + k_launch_us;
    });
  }

  NetworkState const& state_;
  NetworkOptions const& options_;
  std::vector<Step> const& chains_;
  std::vector<std::pair<convolution::LayerChain, double>> known_, launches_;
};

/// Whole networks. A step is made once, whatever others it stands beside.
class WholeTimes {
 public:
  WholeTimes(NetworkState const& state, NetworkOptions const& options) : state_(state), options_(options) {}

  /// Infinite: it does not run.
  double of(std::vector<Step> const& steps) {
    std::vector<RunningStep*> all;
    for (auto const& step : steps) {
      auto* const one = running(step);
      if (one == nullptr) return std::numeric_limits<double>::infinity();
      all.push_back(one);
    }
    double const us = microseconds(state_, all);
    for (auto* const one : all)
      if (one->chain && !one->chain->finish()) return std::numeric_limits<double>::infinity();
    return us;
  }

 private:
  RunningStep* running(Step const& step) {
    for (auto& [known, made] : made_)
      if (known == step) return made ? &*made : nullptr;
    auto found = prepare(state_, step, options_);
    auto& [known, made] = made_.emplace_back(step, std::nullopt);
    if (found) made = std::move(*found);
    return made ? &*made : nullptr;
  }

  NetworkState const& state_;
  NetworkOptions const& options_;
  std::deque<std::pair<Step, std::optional<RunningStep>>> made_;
};

struct Choice {
  std::vector<Step> steps;
  double us = 0;
};

/// Layers that are alike go from cuDNN to launches of their own or back, together, where the whole is faster
/// then.
void refine(NetworkState const& state, std::vector<Step> const& launches, WholeTimes& whole, Choice& best) {
  std::vector<std::pair<convolution::LayerChain, std::vector<std::size_t>>> kinds;
  for (auto const& step : launches) {
    auto const layer = chain_of(state.network, state.images, step.first, step.end);
    auto const known =
        std::find_if(kinds.begin(), kinds.end(), [&](auto const& kind) { return alike(kind.first, *layer); });
    auto& layers =
        known != kinds.end() ? known->second : kinds.emplace_back(*layer, std::vector<std::size_t>()).second;
    layers.push_back(step.first);
  }
  for (auto const& [layer, layers] : kinds)
    for (bool const launch : {false, true}) {
      auto other = best.steps;
      for (auto& step : other)
        if (!step.chain && std::find(layers.begin(), layers.end(), step.first) != layers.end())
          step.launch = launch;
      if (other == best.steps) continue;
      if (double const us = whole.of(other); us < k_clearly * best.us) best = {std::move(other), us};
    }
}

}  // namespace

Expected<std::vector<Step>> tuned_steps(NetworkState& state, NetworkOptions const& options) {
  auto const& network = state.network;
  if (auto ok = tune_plans(state); !ok) return tl::make_unexpected(ok.error());
  auto const chains = possible_chains(network, state.images);
  auto const launches = possible_launches(network, state.images);
  StepTimes times(state, options, chains);
  for (auto const& step : launches)
    if (double const us = times.of(step); us >= 0)
      state.decisions.push_back(fmt::format("layer {}: {:.2f} us in a launch of its own, {:.2f} us by cuDNN",
                                            step.first, us, times.of({step.first, step.end, false})));
  for (auto const& step : chains)
    if (double const us = times.of(step); us >= 0) {
      double sum = 0;
      for (auto n = step.first; n < step.end; ++n) sum += times.of({n, n + 1, false});
      state.decisions.push_back(fmt::format("layers {} to {}: {:.2f} us in a chain, {:.2f} us one by one",
                                            step.first, step.end - 1, us, sum));
    }
  auto all = launches;
  all.insert(all.end(), chains.begin(), chains.end());
  // A layer may be faster alone and slower among others: what counts is the whole.
  WholeTimes whole(state, options);
  Choice best{steps_with(network, {}), 0};
  double const plain_us = best.us = whole.of(best.steps);
  for (auto const& steps : {cheapest_steps(network, all, [&](Step const& step) { return times.of(step); }),
                            steps_with(network, launches)}) {
    if (steps.empty() || steps == best.steps) continue;
    double const us = whole.of(steps);
    state.decisions.push_back(fmt::format("the whole: {:.2f} us as {}", us, to_string(steps)));
    if (us < k_clearly * best.us) best = {steps, us};
  }
  refine(state, launches, whole, best);
  if (best.steps == steps_with(network, {}))
    state.decisions.push_back("no kernel of these is faster than cuDNN's plans");
  else
    state.decisions.push_back(fmt::format("the whole: {:.2f} us by cuDNN, {:.2f} us as {}", plain_us, best.us,
                                          to_string(best.steps)));
  return best.steps;
}

}  // namespace tessera::networks
