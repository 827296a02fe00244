// SPDX-License-Identifier: Apache-2.0
// GEMMs of kernels/gemm_sm90 in graphs with a stamp of every SM before and behind them: time and clock of
// what is between.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "bench/predict/stamps.hpp"
#include "kernels/gemm_sm90/gemm.hpp"

namespace tessera::bench {

/// Medians over the SMs.
struct StampedSample {
  double us = 0, ghz = 0;
};

/// A stream of the first GPU, random operands and a place for results. CUDA's errors end the program; what it
/// allocates is freed with the process.
class StampedGemms {
 public:
  StampedGemms(std::size_t operand_elements, std::size_t output_bytes);

  int sms() const { return sms_; }
  char const* operands() const { return operands_; }
  void* output() const { return output_; }

  /// One after the other; destroyed by the caller.
  template <class CallOf>
  cudaGraphExec_t capture(gemm_sm90::Kernel const& kernel, int count, CallOf const& call_of) {
    begin();
    for (int i = 0; i < count; ++i) launch(kernel, call_of(i));
    return end();
  }
  /// The last of so many runs of a graph, one behind the other.
  StampedSample run(cudaGraphExec_t graph, int runs = 1);

 private:
  void begin();
  void launch(gemm_sm90::Kernel const& kernel, gemm_sm90::Call const& call);
  cudaGraphExec_t end();

  int sms_ = 0;
  cudaStream_t stream_ = nullptr;
  char* operands_ = nullptr;
  void* output_ = nullptr;
  Stamp* stamps_ = nullptr;
};

}  // namespace tessera::bench
