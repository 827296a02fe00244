// SPDX-License-Identifier: Apache-2.0
// Variants of one piece of work as CUDA graphs over rotating buffers, timed by events.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

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
  Timer(cudaStream_t stream, int sets, int per_graph);
  ~Timer();

  /// Captures the work; false if it cannot run.
  bool capture(Variant& variant) const;
  void release(Variant& variant) const;

  /// A graph to warm up, then one that is timed, for each variant in turn; so often. Samples are added. Hot:
  /// without a pause. Cool: after each the GPU rests `rest` times as long as it worked.
  void rounds(std::vector<Variant*> const& variants, int count, double rest = 0);

  /// Median of a few samples of this variant alone; captures and releases it. Infinite if it cannot run.
  double quick(Variant& variant, int samples);

 private:
  cudaStream_t stream_;
  int sets_;
  int per_graph_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace tessera::bench
