// SPDX-License-Identifier: Apache-2.0
// The shipped workloads, each at one small size, as functions that are the same for all.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "kernels/common/mlp_problem.hpp"
#include "kernels/decode/decoder.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "soak/case.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::soak {

/// What can be asked of a workload. Texts are what the library said; empty: nothing. The functions own what
/// they need.
struct Ways {
  /// Enqueues what gives the same output each time. May be captured where `capturable`.
  std::function<std::string(cudaStream_t)> launch;
  std::function<std::string(cudaStream_t)> finish;
  std::function<bool()> is_right;  ///< what the first launch came to, by plain arithmetic
  void* output = nullptr;          ///< in device memory
  std::size_t words = 0;           ///< of 16 bits
  bool capturable = true;
  /// Before the first launch, and behind an error. Waits. May be left out.
  std::function<std::string(cudaStream_t)> begin = {};
  /// Of those that are made to stall: launches so that a wait gives up, and finishes. What was said.
  std::function<std::string(cudaStream_t)> stall = {};
  bool stall_has_output = false;  ///< where nothing is said, the output is that of a launch
};

/// Of all but none. Throws where it cannot be made. `deadline_seconds` of one wait.
Ways ways_of(Workload workload, double deadline_seconds, cudaStream_t stream);
/// The same with a way to stall: beside SMs that are held until a wait has given up, by
/// tiles that take longer than the deadline, by a block that tells nobody anything.
Ways stalling_ways_of(Workload workload, double deadline_seconds, cudaStream_t stream);

/// An MLP by one plan; without one, by default.
Ways mlp_ways(mlp::Shape const& shape, std::optional<Plan> const& plan, double deadline_seconds,
              cudaStream_t stream);
/// One persistent launch for up to 8 or 16 tokens. `early`: it starts before the launch before has ended, and
/// has not the driver's word that all blocks have a place.
Plan mlp_in_one_launch(mlp::Shape const& shape, bool early);

struct LoopWays {
  int tokens = 16;
  bool by_words = false;
  bool in_pairs = false;
  bool starts_early = false;
};
Ways loop_ways(LoopWays const& how, double deadline_seconds);

struct ConvolutionWays {
  int images = 1, layers = 2;
  bool starts_early = false;
  bool by_layer = false;  ///< launches of layers; else waits from tile to tile
  int edge = 14, channels = 256;
};
Ways convolution_ways(ConvolutionWays const& how, double deadline_seconds);
/// A small decoder reads a prompt of three tokens and three more of its own. Its logits are the output.
Ways decoder_ways(decode::StepBy steps, double deadline_seconds, cudaStream_t stream);
/// An attention block of one new token of each of three sequences, launches behind launches.
Ways step_ways(double deadline_seconds);
/// Products and attention of a prompt of 300 tokens, which start early and wait for tiles.
Ways attention_block_ways(double deadline_seconds);
/// A layer behind a prompt of 300 tokens: products by cuBLASLt, norms, attention, all with programmatic edges
/// where the plan has them.
Ways layer_ways(double deadline_seconds);
/// 19 steps from the start of a flow among walls.
Ways lattice_boltzmann_ways(lattice_boltzmann::Variant variant, double deadline_seconds);

}  // namespace tessera::soak
