// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/step_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/common/refusal.hpp"
#include "kernels/networks/pooling.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::networks {
namespace {

using convolution::ConvChain;

constexpr int k_per_graph = 8, k_samples = 7;

cudnn::Problem problem_of(NetworkState const& state, std::size_t n) {
  auto const& layer = state.network.layers[n];
  auto input = state.sizes[static_cast<std::size_t>(layer.input)];
  input.channels = padded(input.channels);
  cudnn::Problem result{state.images, input, layer.layer, state.network.type};
  result.layer.residual = layer.layer.residual < 0 ? -1 : 0;
  return result;
}

cudnn::Buffers buffers_of(NetworkState const& state, std::size_t n) {
  auto const& layer = state.network.layers[n];
  return {state.at(layer.input), state.filters[n], state.biases[n],
          layer.layer.residual < 0 ? nullptr : state.at(layer.layer.residual),
          state.at(static_cast<int>(n) + 1)};
}

int best_plan(NetworkState const& state, std::size_t n) {
  return state.plans->best[static_cast<std::size_t>(state.plans->kind_of[n])];
}

double quick(std::function<cudaError_t(cudaStream_t, int)> const& work) {
  gpu::Stream const stream;
  // Once by itself: what is loaded at a first launch may not be captured.
  if (work(stream.get(), 0) != cudaSuccess || cudaStreamSynchronize(stream.get()) != cudaSuccess)
    return std::numeric_limits<double>::infinity();
  bench::Timer timer(stream.get(), 1, k_per_graph);
  return timer.quick(work, k_samples);
}

}  // namespace

Expected<std::shared_ptr<void>> device_memory(std::size_t bytes, std::string const& what) {
  void* at = nullptr;
  if (auto const e = cudaMalloc(&at, std::max<std::size_t>(bytes, 1)); e != cudaSuccess)
    return kernels::cuda_failed(e, what);
  return std::shared_ptr<void>(at, [](void* of) { (void)cudaFree(of); });
}

Expected<void> build_plans(NetworkState& state, std::vector<bool> const& wanted, int most, double seconds) {
  if (state.plans == nullptr) state.plans = std::make_shared<LayerPlans>();
  auto& all = *state.plans;
  all.kind_of.resize(state.network.layers.size(), -1);
  std::vector<cudnn::Problem> missing;
  std::vector<std::size_t> first_of;  // the layers that they are missing for
  for (std::size_t n = 0; n < state.network.layers.size(); ++n) {
    auto const& layer = state.network.layers[n];
    if (layer.kind != Kind::convolution || !wanted[n] || all.kind_of[n] >= 0) continue;
    auto const problem = problem_of(state, n);
    auto const found = std::find(all.problems.begin(), all.problems.end(), problem);
    all.kind_of[n] = static_cast<int>(found - all.problems.begin());
    if (found != all.problems.end()) continue;
    all.problems.push_back(problem);
    missing.push_back(problem), first_of.push_back(n);
  }
  auto made = cudnn::Plans::of_all(missing, most, seconds);
  for (std::size_t i = 0; i < made.size(); ++i) {
    auto const& layer = state.network.layers[first_of[i]];
    if (made[i].count() == 0) {
      // Other networks may share what is there.
      all.problems.resize(all.plans.size());
      for (auto& kind : all.kind_of)
        if (kind >= static_cast<int>(all.plans.size())) kind = -1;
      return kernels::refusal("E0573",
                              fmt::format("cuDNN has no plan for {}, {}", layer.name, to_string(layer)),
                              "see that its version fits the driver; other sizes may have one",
                              {fmt::format("{}, {} images", cudnn::version(), state.images)});
    }
    all.plans.push_back(std::move(made[i]));
    all.best.push_back(0), all.us.push_back(0);
  }
  return {};
}

Expected<void> make_workspace(NetworkState& state, bool all_plans) {
  std::int64_t bytes = 0;
  auto const& all = *state.plans;
  for (std::size_t kind = 0; kind < all.plans.size(); ++kind)
    for (int plan = 0; plan < all.plans[kind].count(); ++plan)
      if (all_plans || plan == all.best[kind]) bytes = std::max(bytes, all.plans[kind].workspace_bytes(plan));
  state.workspace = nullptr;
  auto memory = device_memory(static_cast<std::size_t>(bytes), "workspace of cuDNN");
  if (!memory) return tl::make_unexpected(memory.error());
  state.workspace = std::move(*memory);
  return {};
}

Expected<void> tune_plans(NetworkState& state) {
  if (auto ok = make_workspace(state, true); !ok) return ok;
  auto& all = *state.plans;
  for (std::size_t n = 0; n < state.network.layers.size(); ++n) {
    if (all.kind_of[n] < 0) continue;
    auto const kind = static_cast<std::size_t>(all.kind_of[n]);
    if (all.us[kind] > 0) continue;
    auto least = std::numeric_limits<double>::infinity();
    auto const& plans = all.plans[kind];
    for (int plan = 0; plan < plans.count(); ++plan)
      if (double const us = microseconds_of_plan(state, n, plan); us < least)
        least = us, all.best[kind] = plan;
    auto const& name = state.network.layers[n].name;
    if (!std::isfinite(least))
      return kernels::refusal("E0573", fmt::format("none of cuDNN's plans for {} runs", name),
                              "see whether the device works (nvidia-smi)");
    all.us[kind] = least;
    state.decisions.push_back(fmt::format("{}: cuDNN's plan {} of {} takes {:.2f} us", name,
                                          plans.name(all.best[kind]), plans.count(), least));
  }
  return {};
}

Expected<RunningStep> prepare(NetworkState const& state, Step const& step, NetworkOptions const& options,
                              convolution::Cut const* cut) {
  if (!step.chain && !step.launch) return RunningStep{step, {}};
  auto const chain = chain_of(state.network, state.images, step.first, step.end);
  if (!chain) return tl::make_unexpected(chain.error());
  convolution::ConvBuffers buffers{state.at(state.network.layers[step.first].input), {}};
  for (auto n = step.first; n < step.end; ++n) {
    bool const adds_given = chain->layers[n - step.first].residual == convolution::k_given_residual;
    buffers.layers.push_back({state.filters[n], state.biases[n], state.at(static_cast<int>(n) + 1),
                              adds_given ? state.at(state.network.layers[n].layer.residual) : nullptr});
  }
  convolution::ConvOptions with;
  // Behind another step: it may load filters while that still runs.
  with.starts_early = options.starts_early && step.first > 0;
  with.deadline_seconds = options.deadline_seconds;
  with.keep_times = options.keep_times;
  with.by_layer = step.launch;
  if (step.launch)
    for (auto const& [layer, fastest] : state.plans->cuts)
      if (alike(layer, *chain)) with.cuts = {fastest};
  if (cut != nullptr) with.cuts = {*cut};
  auto made = ConvChain::make(*chain, buffers, with);
  if (!made) return tl::make_unexpected(made.error());
  return RunningStep{step, std::move(*made)};
}

bool enqueue_plan(NetworkState const& state, std::size_t n, int plan, cudaStream_t stream) {
  auto const kind = static_cast<std::size_t>(state.plans->kind_of[n]);
  return state.plans->plans[kind].run(plan, buffers_of(state, n), state.workspace.get(), stream);
}

Expected<void> enqueue(NetworkState const& state, RunningStep& running, cudaStream_t stream) {
  if (running.chain) return running.chain->run(stream);
  auto const n = running.step.first;
  auto const& layer = state.network.layers[n];
  auto const& from = state.sizes[static_cast<std::size_t>(layer.input)];
  void const* const input = state.at(layer.input);
  void* const output = state.at(static_cast<int>(n) + 1);
  auto failed = cudaSuccess;
  if (layer.kind == Kind::max_pool)
    failed = max_pool(input, output, state.images, from, layer, state.network.type, stream);
  else if (layer.kind == Kind::average_pool)
    failed = average_pool(input, output, state.images, from, state.network.type, stream);
  else if (!enqueue_plan(state, n, best_plan(state, n), stream))
    return kernels::refusal("E0511", fmt::format("cuDNN failed at {}", layer.name),
                            "see whether the device works (nvidia-smi) and whether an earlier kernel failed");
  if (failed != cudaSuccess) return kernels::cuda_failed(failed, layer.name);
  return {};
}

double microseconds(NetworkState const& state, std::vector<RunningStep*> const& steps) {
  return quick([&](cudaStream_t stream, int) {
    for (auto* const one : steps)
      if (!enqueue(state, *one, stream)) return cudaErrorLaunchFailure;
    return cudaSuccess;
  });
}

double microseconds_of_plan(NetworkState const& state, std::size_t layer, int plan) {
  return quick([&](cudaStream_t stream, int) {
    return enqueue_plan(state, layer, plan, stream) ? cudaSuccess : cudaErrorLaunchFailure;
  });
}

}  // namespace tessera::networks
