// SPDX-License-Identifier: Apache-2.0
// What a network holds on the GPU, and how one step of it is made and enqueued.
#pragma once

#include <deque>

#include "kernels/convolution/conv_chain.hpp"
#include "kernels/cudnn/convolution.hpp"
#include "kernels/networks/conv_network.hpp"

namespace tessera::networks {

/// A step that can be enqueued.
struct RunningStep {
  Step step;
  std::optional<convolution::ConvChain> chain;
};

/// cuDNN's plans: of layers that are alike once. Networks may share them.
struct LayerPlans {
  std::vector<int> kind_of;  ///< of each layer: which of the following; -1: none was built
  std::vector<cudnn::Problem> problems;
  std::deque<cudnn::Plans> plans;
  std::vector<int> best;   ///< of each kind
  std::vector<double> us;  ///< what that takes; 0: not measured
  /// The fastest cuts of layers that are launches of their own, as far as they were measured: of which layer.
  std::vector<std::pair<convolution::LayerChain, convolution::Cut>> cuts;
};

struct NetworkState {
  Network network;
  int images = 1;
  std::vector<ImageSize> sizes;
  std::vector<std::shared_ptr<void>> memory;
  void* images_at = nullptr;  ///< as they are given; activations[0] where they are not padded
  std::vector<void*> activations;
  std::vector<void const*> filters, biases;  ///< of each layer; null: none
  std::shared_ptr<struct LayerPlans> plans;
  std::shared_ptr<void> workspace;
  std::vector<RunningStep> steps;
  std::vector<Step> step_list;
  std::vector<std::string> decisions;

  void* at(int activation) const { return activations[static_cast<std::size_t>(activation)]; }
};

/// Chains of a network for one number of images.
inline bool alike(convolution::LayerChain const& a, convolution::LayerChain const& b) {
  return a.height == b.height && a.width == b.width && a.channels == b.channels && a.layers == b.layers;
}

/// E0511.
Expected<std::shared_ptr<void>> device_memory(std::size_t bytes, std::string const& what);

/// Builds plans for the convolutions that are `wanted` and have none. E0573 where cuDNN has none either.
Expected<void> build_plans(NetworkState& state, std::vector<bool> const& wanted, int most, double seconds);
/// Measures all plans of kinds that have not been, and takes the fastest. E0511, E0573 where none runs.
Expected<void> tune_plans(NetworkState& state);
/// Memory for the plans that are taken, or for all of them. E0511.
Expected<void> make_workspace(NetworkState& state, bool all_plans);

/// Loads and plans a chain, or a launch of one layer: with this cut, or else with the fastest that is known.
/// Refuses as ConvChain::make().
Expected<RunningStep> prepare(NetworkState const& state, Step const& step, NetworkOptions const& options,
                              convolution::Cut const* cut = nullptr);
/// Enqueues it. E0511 where CUDA or cuDNN fails, E0520.
Expected<void> enqueue(NetworkState const& state, RunningStep& step, cudaStream_t stream);
/// One convolution by this plan of cuDNN.
bool enqueue_plan(NetworkState const& state, std::size_t layer, int plan, cudaStream_t stream);

/// Microseconds that it takes, again and again, on a stream of its own, the median of some; infinite where it
/// fails.
double microseconds(NetworkState const& state, std::vector<RunningStep*> const& steps);
double microseconds_of_plan(NetworkState const& state, std::size_t layer, int plan);

/// Measures plans and chains, and says which steps are to be taken. E0573, E0511.
Expected<std::vector<Step>> tuned_steps(NetworkState& state, NetworkOptions const& options);

}  // namespace tessera::networks
