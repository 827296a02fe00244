// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera::networks {
namespace {

using convolution::LayerChain;

tl::unexpected<Diagnostics> refused(std::string message, std::string way_out) {
  return refuse({"E0573", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

bool follows(Network const& network, std::size_t layer) {
  return network.layers[layer].kind == Kind::convolution &&
         network.layers[layer].input == static_cast<int>(layer);
}

/// Does a layer from `at` on, before `end`, add what layers from `first` on, before `at`, write or read?
bool reaches_over(Network const& network, std::size_t first, std::size_t at, std::size_t end) {
  for (std::size_t n = at; n < end; ++n) {
    int const residual = network.layers[n].layer.residual;
    if (residual >= static_cast<int>(first) && residual < static_cast<int>(at)) return true;
  }
  return false;
}

}  // namespace

Expected<LayerChain> chain_of(Network const& network, int images, std::size_t first, std::size_t end) {
  auto const sizes = sizes_of(network);
  if (first >= end || end > network.layers.size())
    return refused(fmt::format("a chain of layers {} to {} of {}", first, end, network.layers.size()),
                   "name layers of the network, at least one");
  int const input = network.layers[first].input;
  auto const& image = sizes[static_cast<std::size_t>(input)];
  LayerChain chain{images, image.height, image.width, image.channels, {}, network.type};
  for (std::size_t n = first; n < end; ++n) {
    auto const& layer = network.layers[n];
    if (layer.kind != Kind::convolution || (n > first && !follows(network, n)))
      return refused(fmt::format("a chain with layer {}, {}", n, layer.name),
                     "end it before layers that are no convolutions, or that read something older");
    auto one = layer.layer;
    if (int const residual = one.residual; residual >= 0) {
      // The chain's input is older than what a layer reads, but for the first layer.
      if (residual == input && n > first)
        one.residual = 0;
      else if (residual > static_cast<int>(first))
        one.residual = residual - static_cast<int>(first);
      else
        one.residual = convolution::k_given_residual;
    }
    chain.layers.push_back(one);
  }
  if (auto ok = check_chain(chain); !ok) return tl::make_unexpected(ok.error());
  return chain;
}

std::vector<Step> possible_chains(Network const& network, int images) {
  std::vector<Step> result;
  auto const all = network.layers.size();
  auto const sizes = sizes_of(network);
  auto const changes = [&](std::size_t n) {
    return !(sizes[static_cast<std::size_t>(network.layers[n].input)] == sizes[n + 1]);
  };
  for (std::size_t begin = 0; begin < all;) {
    // Layers that a chain may be of, one behind the other.
    auto end = begin;
    while (end < all && (end == begin || follows(network, end)) && chain_of(network, images, end, end + 1))
      ++end;
    if (end == begin) {
      ++begin;
      continue;
    }
    std::vector<std::size_t> places = {begin};
    for (auto at = begin + 1; at < end; ++at)
      if (!reaches_over(network, begin, at, end) && (changes(at - 1) || changes(at))) places.push_back(at);
    places.push_back(end);
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t j = i + 1; j < places.size(); ++j)
        if (chain_of(network, images, places[i], places[j])) result.push_back({places[i], places[j], true});
    begin = end;
  }
  return result;
}

std::vector<Step> possible_launches(Network const& network, int images) {
  std::vector<Step> result;
  for (std::size_t n = 0; n < network.layers.size(); ++n)
    if (chain_of(network, images, n, n + 1)) result.push_back({n, n + 1, false, true});
  return result;
}

std::vector<Step> steps_with(Network const& network, std::vector<Step> const& chains) {
  std::vector<Step> result;
  auto next = chains.begin();
  for (std::size_t at = 0; at < network.layers.size();) {
    if (next != chains.end() && next->first == at)
      result.push_back(*next++);
    else
      result.push_back({at, at + 1, false});
    at = result.back().end;
  }
  return result;
}

std::vector<Step> cheapest_steps(Network const& network, std::vector<Step> const& steps,
                                 std::function<double(Step const&)> const& cost, double begins) {
  struct Best {
    double cost = std::numeric_limits<double>::infinity();
    Step last;
  };
  // Of the layers before each place, if the last of them is a launch of its own and if it is none.
  std::vector<std::array<Best, 2>> best(network.layers.size() + 1);
  best[0][0].cost = 0;
  auto const way = [](Step const& step) -> std::size_t { return step.launch ? 1 : 0; };
  auto const behind = [&](Step const& step) -> Best const& {
    auto const& [other, launch] = best[step.first];
    return step.launch ? (launch.cost <= other.cost + begins ? launch : other)
                       : (launch.cost <= other.cost ? launch : other);
  };
  auto const offer = [&](Step const& step) {
    double const own = cost(step);
    if (own < 0) return;
    auto const& before = behind(step);
    double const sum = before.cost + own + (step.launch && &before == &best[step.first][0] ? begins : 0);
    if (auto& to = best[step.end][way(step)]; sum < to.cost) to = {sum, step};
  };
  for (std::size_t at = 0; at < network.layers.size(); ++at) {
    offer({at, at + 1, false});
    for (auto const& step : steps)
      if (step.first == at) offer(step);
  }
  std::vector<Step> result;
  auto const& [other, launch] = best.back();
  auto const* last = launch.cost < other.cost ? &launch : &other;
  if (!std::isfinite(last->cost)) return {};
  for (auto at = network.layers.size(); at > 0; at = last->last.first, last = &behind(result.back()))
    result.push_back(last->last);
  std::reverse(result.begin(), result.end());
  return result;
}

Expected<void> check_steps(Network const& network, int images, std::vector<Step> const& steps) {
  std::size_t next = 0;
  for (auto const& step : steps) {
    if (step.first != next || step.end <= step.first || step.end > network.layers.size() ||
        (!step.chain && step.end != step.first + 1) || (step.chain && step.launch))
      return refused(
          fmt::format("a step of layers {} to {} where layer {} is next", step.first, step.end, next),
          "name all layers in order, several only as a chain");
    if (step.chain || step.launch)
      if (auto chain = chain_of(network, images, step.first, step.end); !chain)
        return tl::make_unexpected(chain.error());
    next = step.end;
  }
  if (next != network.layers.size())
    return refused(fmt::format("steps of {} of {} layers", next, network.layers.size()), "name all layers");
  return {};
}

std::string to_string(std::vector<Step> const& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size();) {
    auto const first = steps[i].first;
    bool const chain = steps[i].chain, launch = steps[i].launch;
    auto end = steps[i++].end;
    while (!chain && i < steps.size() && !steps[i].chain && steps[i].launch == launch) end = steps[i++].end;
    auto const which =
        end - first == 1 ? fmt::format("layer {}", first) : fmt::format("layers {} to {}", first, end - 1);
    text += (text.empty() ? "" : ", ") + which +
            (chain    ? " in a chain"
             : launch ? " in launches of their own"
                      : " one by one");
  }
  return text;
}

}  // namespace tessera::networks
