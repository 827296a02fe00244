// SPDX-License-Identifier: Apache-2.0
// Attention of prompts by cuDNN, the strongest library's: its graph for scaled dot products, which its
// frontend builds. The library is loaded when it is first asked for. From one thread at a time: graphs share
// a handle.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <tessera/diagnostic.hpp>

#include "kernels/attention_sm90/problem.hpp"

namespace tessera::cudnn {

class Attention {
 public:
  /// Prompts without cached keys, dropout or a window, one behind the other. With query_offsets the graph is
  /// for sequences as long as the longest one is now. E0590: cuDNN has no plan for the problem, or is not
  /// there; E0511.
  static Expected<std::shared_ptr<Attention const>> make(attention_sm90::Problem const& problem);
  ~Attention();

  std::size_t workspace_bytes() const;
  /// May be captured. `workspace`: workspace_bytes() of device memory. With query_offsets a launch in front
  /// of cuDNN's works out of them what cuDNN asks for.
  cudaError_t run(void const* q, void const* k, void const* v, void* out, void* workspace,
                  cudaStream_t stream) const;

 private:
  Attention();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::cudnn
