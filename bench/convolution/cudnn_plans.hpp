// SPDX-License-Identifier: Apache-2.0
// A convolution by cuDNN: filters, bias, residual and ReLU as one graph of its backend interface, and the
// plans that its heuristics offer for it. The library is loaded when it is first asked for: where it is
// missing, there are no plans.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/convolution/problem.hpp"

namespace tessera::bench {

/// "cuDNN 9.19.0", or why there is none.
std::string cudnn_version();

/// What one layer reads and writes.
struct CudnnBuffers {
  void const* input;
  void const* filter;
  void const* bias;
  void const* residual;  ///< null: the layer adds none
  void* output;
};

class CudnnLayer {
 public:
  /// Builds plans of heuristic modes A, B and fallback, the first ones first, until there are `most` or
  /// `seconds` are over.
  CudnnLayer(convolution::LayerChain const& chain, std::size_t layer, int most, double seconds);
  ~CudnnLayer();
  CudnnLayer(CudnnLayer const&) = delete;
  CudnnLayer& operator=(CudnnLayer const&) = delete;

  int plans() const;
  int offered() const;  ///< by the heuristics
  std::string name(int plan) const;
  /// May be captured; false if cuDNN refuses.
  bool run(int plan, CudnnBuffers const& buffers, cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::bench
