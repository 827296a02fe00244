// SPDX-License-Identifier: Apache-2.0
// A network of convolutions on the GPU: each a launch of its own that loads its filters early, or by cuDNN's
// plans, or some in persistent chains, whichever is faster; pooling by kernels of its own.
//
//   auto network = ConvNetwork::make(resnet_50(), weights, 4, {}, stream);
//   cudaMemcpyAsync(network->input(), images, bytes, cudaMemcpyDefault, stream);
//   network->run(stream);
//   cudaMemcpyAsync(results, network->output(), bytes, cudaMemcpyDefault, stream);
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/networks/steps.hpp"
#include "kernels/networks/weights.hpp"

namespace tessera::networks {

struct NetworkOptions {
  /// Measures, on the stream of make(), which of cuDNN's plans is the fastest for each layer, and which
  /// layers are faster in launches of their own or in a chain. Takes seconds, and the GPU should have nothing
  /// else to do. False: the first plan of cuDNN's heuristics, and usual_steps().
  bool tune = false;
  double tune_seconds = 1;  ///< to build plans of cuDNN, of layers that are alike
  int tune_plans = 100;     ///< of cuDNN, of layers that are alike: more than its heuristics offer
  /// Who computes what. Nothing: what was measured, or usual_steps().
  std::optional<std::vector<Step>> steps;
  double deadline_seconds = 2;  ///< of a wait inside a chain
  bool keep_times = false;      ///< stamps of chains' tiles, for layer_times()
  bool starts_early = true;     ///< launches and chains load filters while the step before runs
};

/// What a step takes by itself, again and again, and how its layers share it.
struct StepTime {
  Step step;
  double us = 0;
  std::string by;                 ///< "cuDNN, plan A 3", "chain, 2 launches", "max pooling"
  std::vector<double> layers_us;  ///< of a chain with keep_times; empty: of one layer, or not known
};

class ConvNetwork {
 public:
  /// Refuses (E0573) what no network is, weights of other sizes, and where cuDNN or a plan of it is missing;
  /// E0511 where CUDA fails; as ConvChain::make() for chains. Waits for the stream.
  static Expected<ConvNetwork> make(Network const& network, NetworkWeights const& weights, int images,
                                    NetworkOptions const& options, cudaStream_t stream);

  /// The same network again, in memory of its own, with these steps and with the plans that this one has
  /// taken: nothing is measured. Refuses as make().
  Expected<ConvNetwork> again(NetworkWeights const& weights, std::vector<Step> const& steps,
                              NetworkOptions const& options, cudaStream_t stream) const;

  void* input() const;         ///< [image][row][column][channel] of the network's type and channels
  void const* output() const;  ///< what the last layer writes
  /// Enqueues the network once; may be captured. Runs of one network follow each other. Of networks that have
  /// layers by cuDNN one thread at a time. E0520 where a launch before has stalled, E0511.
  Expected<void> run(cudaStream_t stream);
  /// Waits for the chains of all runs. E0520 if a wait met its deadline.
  Expected<void> finish();

  std::vector<Step> const& steps() const;
  /// How `tune` has decided, a line each; empty without it.
  std::vector<std::string> const& decisions() const;
  /// What each step takes. Behind a run; waits for the stream.
  Expected<std::vector<StepTime>> step_times(cudaStream_t stream) const;
  /// An activation of the last run, padded() channels of each pixel: its bits, of one image. Waits for the
  /// device.
  Expected<std::vector<std::uint16_t>> activation(int number, int image) const;

 private:
  std::shared_ptr<struct NetworkState> state_;
};

/// How far a layer is from plain arithmetic on what it has read, in the mean square.
struct LayerError {
  std::size_t layer = 0;
  double error = 0;
};
/// What a rounding of each result is at most: 3.5e-4 for fp16, 2.8e-3 for bf16.
double allowed_error(ElementType type);
/// Every layer of the last run, for its first and its last image, on the CPU: seconds.
Expected<std::vector<LayerError>> layer_errors(ConvNetwork const& on_gpu, Network const& network,
                                               NetworkWeights const& weights, int images);

}  // namespace tessera::networks
