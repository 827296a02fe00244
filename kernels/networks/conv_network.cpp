// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/conv_network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/common/refusal.hpp"
#include "kernels/networks/network_time.hpp"
#include "kernels/networks/pooling.hpp"
#include "kernels/networks/step_runs.hpp"

namespace tessera::networks {
namespace {

constexpr char const* k_weights = "a network's weights";

Expected<void> check_weights(Network const& network, std::vector<ImageSize> const& sizes,
                             NetworkWeights const& weights) {
  if (weights.layers.size() != network.layers.size())
    return kernels::refusal(
        "E0573",
        fmt::format("weights of {} layers for a network of {}", weights.layers.size(), network.layers.size()),
        "give filter and bias for each, empty for pooling");
  for (std::size_t n = 0; n < network.layers.size(); ++n) {
    auto const& layer = network.layers[n];
    auto const& one = weights.layers[n];
    bool const convolves = layer.kind == Kind::convolution;
    auto const& input = sizes[static_cast<std::size_t>(layer.input)];
    auto const filter = convolves ? static_cast<std::size_t>(filter_elements(input, layer)) : 0;
    auto const bias = convolves && layer.layer.bias ? static_cast<std::size_t>(layer.layer.channels) : 0;
    if (one.filter.size() != filter || one.bias.size() != bias)
      return kernels::refusal(
          "E0573",
          fmt::format("a filter of {} and a bias of {} numbers for {}, which has {} and {}",
                      one.filter.size(), one.bias.size(), layer.name, filter, bias),
          "see LayerWeights: channels in are padded to multiples of 8");
  }
  return {};
}

/// A copy on the device, null for nothing.
Expected<void const*> upload(NetworkState& state, std::vector<std::uint16_t> const& numbers,
                             cudaStream_t stream) {
  if (numbers.empty()) return static_cast<void const*>(nullptr);
  auto const bytes = 2 * numbers.size();
  auto memory = device_memory(bytes, k_weights);
  if (!memory) return tl::make_unexpected(memory.error());
  state.memory.push_back(*memory);
  if (auto const e = cudaMemcpyAsync(memory->get(), numbers.data(), bytes, cudaMemcpyHostToDevice, stream);
      e != cudaSuccess)
    return kernels::cuda_failed(e, k_weights);
  return static_cast<void const*>(memory->get());
}

Expected<void> make_memory(NetworkState& state, NetworkWeights const& weights, cudaStream_t stream) {
  auto const add = [&](long long elements) -> Expected<void*> {
    auto memory = device_memory(2 * static_cast<std::size_t>(elements), "activations of a network");
    if (!memory) return tl::make_unexpected(memory.error());
    state.memory.push_back(*memory);
    return memory->get();
  };
  for (auto size : state.sizes) {
    size.channels = padded(size.channels);
    auto const at = add(state.images * size.elements());
    if (!at) return tl::make_unexpected(at.error());
    state.activations.push_back(*at);
  }
  state.images_at = state.activations.front();
  if (auto const& image = state.sizes.front(); image.channels != padded(image.channels)) {
    auto const at = add(state.images * image.elements());
    if (!at) return tl::make_unexpected(at.error());
    state.images_at = *at;
  }
  for (auto const& layer : weights.layers)
    for (auto const& [numbers, to] :
         {std::pair{&layer.filter, &state.filters}, {&layer.bias, &state.biases}}) {
      auto const at = upload(state, *numbers, stream);
      if (!at) return tl::make_unexpected(at.error());
      to->push_back(*at);
    }
  if (auto const e = cudaStreamSynchronize(stream); e != cudaSuccess)
    return kernels::cuda_failed(e, k_weights);
  return {};
}

/// Layers that some step computes by itself.
std::vector<bool> alone(std::vector<Step> const& steps, std::size_t layers) {
  std::vector<bool> result(layers);
  for (auto const& step : steps)
    if (!step.chain && !step.launch) result[step.first] = true;
  return result;
}

/// Which steps, and plans for them.
Expected<std::vector<Step>> choose_steps(NetworkState& state, NetworkOptions const& options) {
  auto const& network = state.network;
  bool const tunes = options.tune && !options.steps;
  auto const steps = options.steps ? *options.steps : usual_steps(network, state.images);
  if (auto ok = check_steps(network, state.images, steps); !ok) return tl::make_unexpected(ok.error());
  // Where everything may be measured each layer counts.
  auto const wanted = alone(tunes ? steps_with(network, {}) : steps, network.layers.size());
  if (auto ok = build_plans(state, wanted, options.tune ? options.tune_plans : 1, options.tune_seconds); !ok)
    return tl::make_unexpected(ok.error());
  if (tunes) return tuned_steps(state, options);
  if (options.tune)
    if (auto ok = tune_plans(state); !ok) return tl::make_unexpected(ok.error());
  return steps;
}

Expected<void> make_steps(NetworkState& state, std::vector<Step> steps, NetworkOptions const& options) {
  if (auto ok = make_workspace(state, false); !ok) return ok;
  for (auto const& step : steps) {
    auto running = prepare(state, step, options);
    if (!running) return tl::make_unexpected(running.error());
    state.steps.push_back(std::move(*running));
  }
  state.step_list = std::move(steps);
  return {};
}

/// Of a chain's time what each layer takes: from the last tile of the one before to its own last tile. Empty
/// without stamps.
std::vector<double> shares(convolution::ConvChain const& chain, std::size_t layers, double us) {
  std::vector<double> result;
  unsigned long long before = ~0ull, first = 0;
  for (std::size_t l = 0; l < layers; ++l) {
    auto const tiles = chain.times(l);
    if (tiles.empty()) return {};
    unsigned long long last = 0;
    for (auto const& tile : tiles) {
      if (l == 0) before = std::min(before, tile.begun);
      last = std::max(last, tile.stored);
    }
    if (l == 0) first = before;
    last = std::max(last, before);
    result.push_back(static_cast<double>(last - before));
    before = last;
  }
  for (auto& one : result) one *= us / std::max(1.0, static_cast<double>(before - first));
  return result;
}

}  // namespace

Expected<ConvNetwork> ConvNetwork::make(Network const& network, NetworkWeights const& weights, int images,
                                        NetworkOptions const& options, cudaStream_t stream) {
  // What can be refused without a GPU is.
  if (auto ok = check_network(network, images); !ok) return tl::make_unexpected(ok.error());
  auto const state = std::make_shared<NetworkState>();
  state->network = network, state->images = images, state->sizes = sizes_of(network);
  if (auto ok = check_weights(network, state->sizes, weights); !ok) return tl::make_unexpected(ok.error());
  if (options.steps)
    if (auto ok = check_steps(network, images, *options.steps); !ok) return tl::make_unexpected(ok.error());
  if (!cudnn::available())
    return kernels::refusal("E0573", cudnn::version(),
                            "install cuDNN 9, or name its folder in LD_LIBRARY_PATH");
  if (auto ok = make_memory(*state, weights, stream); !ok) return tl::make_unexpected(ok.error());
  auto steps = choose_steps(*state, options);
  if (!steps) return tl::make_unexpected(steps.error());
  if (auto ok = make_steps(*state, std::move(*steps), options); !ok) return tl::make_unexpected(ok.error());
  ConvNetwork result;
  result.state_ = state;
  return result;
}

Expected<ConvNetwork> ConvNetwork::again(NetworkWeights const& weights, std::vector<Step> const& steps,
                                         NetworkOptions const& options, cudaStream_t stream) const {
  auto const state = std::make_shared<NetworkState>();
  auto const& network = state->network = state_->network;
  state->images = state_->images, state->sizes = state_->sizes, state->plans = state_->plans;
  if (auto ok = check_weights(network, state->sizes, weights); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = check_steps(network, state->images, steps); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = make_memory(*state, weights, stream); !ok) return tl::make_unexpected(ok.error());
  // Those that the other network has not needed.
  if (auto ok = build_plans(*state, alone(steps, network.layers.size()), 1, options.tune_seconds); !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = make_steps(*state, steps, options); !ok) return tl::make_unexpected(ok.error());
  ConvNetwork result;
  result.state_ = state;
  return result;
}

void* ConvNetwork::input() const { return state_->images_at; }
void const* ConvNetwork::output() const { return state_->activations.back(); }

Expected<void> ConvNetwork::run(cudaStream_t stream) {
  auto const& state = *state_;
  if (state.images_at != state.activations.front())
    if (auto const e = pad_channels(state.images_at, state.activations.front(), state.images,
                                    state.sizes.front(), stream);
        e != cudaSuccess)
      return kernels::cuda_failed(e, "padding images");
  for (auto& step : state_->steps)
    if (auto ok = enqueue(state, step, stream); !ok) return ok;
  return {};
}

Expected<void> ConvNetwork::finish() {
  Expected<void> result;
  for (auto& step : state_->steps)
    if (step.chain)
      if (auto done = step.chain->finish(); !done && result) result = done;
  return result;
}

std::vector<Step> const& ConvNetwork::steps() const { return state_->step_list; }
std::vector<std::string> const& ConvNetwork::decisions() const { return state_->decisions; }

Expected<std::vector<StepTime>> ConvNetwork::step_times(cudaStream_t stream) const {
  if (auto const e = cudaStreamSynchronize(stream); e != cudaSuccess)
    return kernels::cuda_failed(e, "a network's run");
  std::vector<StepTime> result;
  for (auto& one : state_->steps) {
    StepTime time{one.step, microseconds(*state_, {&one}), {}, {}};
    auto const& layer = state_->network.layers[one.step.first];
    if (one.chain) {
      auto const launches = one.chain->launches().size();
      time.by = one.step.launch ? "a launch of its own"
                : launches == 1 ? "chain"
                                : fmt::format("chain, {} launches", launches);
      time.layers_us = shares(*one.chain, one.step.end - one.step.first, time.us);
    } else if (layer.kind == Kind::convolution) {
      auto const kind = static_cast<std::size_t>(state_->plans->kind_of[one.step.first]);
      time.by = "cuDNN, plan " + state_->plans->plans[kind].name(state_->plans->best[kind]);
    } else {
      time.by = "pooling";
    }
    result.push_back(std::move(time));
  }
  return result;
}

Expected<std::vector<std::uint16_t>> ConvNetwork::activation(int number, int image) const {
  auto const& state = *state_;
  if (number < 0 || number >= static_cast<int>(state.activations.size()) || image < 0 ||
      image >= state.images)
    return kernels::refusal("E0573", fmt::format("activation {} of image {}", number, image),
                            fmt::format("there are {} of {} images", state.activations.size(), state.images));
  auto size = state.sizes[static_cast<std::size_t>(number)];
  size.channels = padded(size.channels);
  std::vector<std::uint16_t> result(static_cast<std::size_t>(size.elements()));
  auto const* const from = static_cast<std::uint16_t const*>(state.at(number)) + image * size.elements();
  auto e = cudaDeviceSynchronize();
  if (e == cudaSuccess) e = cudaMemcpy(result.data(), from, 2 * result.size(), cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) return kernels::cuda_failed(e, "reading an activation");
  return result;
}

}  // namespace tessera::networks
