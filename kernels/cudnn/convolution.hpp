// SPDX-License-Identifier: Apache-2.0
// A convolution by cuDNN: filters, bias, residual and ReLU as one graph of its backend interface, and the
// plans that its heuristics offer for it. The library is loaded when it is first asked for: where it is
// missing, there are no plans. From one thread at a time: plans share handles of the library.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/convolution/problem.hpp"

namespace tessera::cudnn {

/// "cuDNN 9.19.0", or why there is none.
std::string version();
bool available();

/// One layer on its own. Channels may be of any number, and filters of any size.
struct Problem {
  int images = 1;
  convolution::ImageSize input;
  convolution::Layer layer;  ///< `residual`: from 0 on it adds one
  convolution::ElementType type = convolution::ElementType::fp16;

  bool operator==(Problem const&) const = default;
};
/// A layer of a chain; those that cuDNN cannot tell apart are equal.
Problem problem_of(convolution::LayerChain const& chain, std::size_t layer);

/// What it reads and writes. Null: the layer has no bias, adds no residual.
struct Buffers {
  void const* input;
  void const* filter;
  void const* bias;
  void const* residual;
  void* output;
};

class Plans {
 public:
  /// Workspace that a plan may need at most.
  static constexpr std::int64_t most_workspace = 256LL << 20;

  /// Builds plans of heuristic modes A, B and fallback, the first ones first, until there are `most` or
  /// `seconds` are over and there is one.
  Plans(Problem const& problem, int most, double seconds);
  /// The same for several problems, by several threads: each problem gets its seconds, and `most` plans,
  /// which need not be the first ones then, but for `most` = 1. `threads`: 0: one for each processor, 16 at
  /// most.
  static std::vector<Plans> of_all(std::vector<Problem> const& problems, int most, double seconds,
                                   int threads = 0);
  ~Plans();
  Plans(Plans&&) noexcept;
  Plans& operator=(Plans&&) noexcept;

  int count() const;
  int offered() const;  ///< by the heuristics
  std::string name(int plan) const;
  std::int64_t workspace_bytes(int plan) const;
  /// May be captured; false if cuDNN refuses. `workspace`: of as many bytes as the plan needs.
  bool run(int plan, Buffers const& buffers, void* workspace, cudaStream_t stream) const;

 private:
  Plans();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::cudnn
