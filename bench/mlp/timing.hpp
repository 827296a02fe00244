// SPDX-License-Identifier: Apache-2.0
// Variants of one piece of work, timed as kernels/mlp times its candidates, for programs that leave at the
// first CUDA error.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/mlp/measure/timer.hpp"

namespace tessera::bench {

/// Prints and leaves with 1 unless the call was right.
void check(cudaError_t error, char const* what);

struct Variant {
  std::string name;    ///< "cublasLt", "stream", "pdl", "row", "tile", ...
  std::string detail;  ///< which kernels
  std::function<cudaError_t(cudaStream_t, int set)> work;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> samples{};  ///< microseconds for one piece of work
};

double median(std::vector<double> samples);

class Timer {
 public:
  /// `per_graph` pieces of work to a graph, on `sets` sets of buffers in turn.
  Timer(cudaStream_t stream, int sets, int per_graph) : timer_(stream, sets, per_graph) {}

  /// Captures the work; false if it cannot run.
  bool capture(Variant& variant);
  static void release(Variant& variant);

  /// A graph to warm up, then one that is timed, for each variant in turn; so often. Samples are added. Hot:
  /// without a pause. Cool: after each the GPU rests `rest` times as long as it worked.
  void rounds(std::vector<Variant*> const& variants, int count, double rest = 0);

  /// Median of a few samples of this variant alone; captures and releases it. Infinite if it cannot run.
  double quick(Variant& variant, int samples);

 private:
  mlp::Timer timer_;
};

}  // namespace tessera::bench
