// SPDX-License-Identifier: Apache-2.0
// Operands of such a block on the GPU, and what each of its kernels made beside plain arithmetic.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/unfused_attention/bind.hpp"

namespace tessera::unfused_attention {

struct FreeOnDevice {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};

/// Of one stage: |got - reference| / |reference| over what was compared, and twice that of the reference
/// rounded to bf16. A weight that is dropped and should stay, or stays and should be dropped, is infinitely
/// far off.
struct StageError {
  std::string stage;
  double error = 0, allowed = 0;

  bool right() const { return error <= allowed; }
};

class Operands {
 public:
  /// Random inputs, the same each time, so that scores spread by about one. E0511; refuses as
  /// check_unfused().
  static Expected<Operands> make(OperatorGraph const& graph, Dropping const& dropping, cudaStream_t stream);

  /// Runs once on poisoned outputs, and waits for it.
  Expected<void> run(Executable& executable, cudaStream_t stream) const;
  /// Products over all elements; of scores, weights and context each seventh row of each head, in double,
  /// which meets every tile.
  Expected<std::vector<StageError>> compare(cudaStream_t stream) const;
  /// Bits of a tensor.
  Expected<std::vector<unsigned short>> bits(std::string const& tensor) const;

  Expected<Executable> bind(Plan const& plan) const;

  Tensors tensors;

 private:
  OperatorGraph graph_;
  Dropping dropping_;
  std::vector<std::unique_ptr<void, FreeOnDevice>> memory_;
};

/// Median microseconds of replays of one graph, on the same operands.
Expected<double> replayed_us(Executable& executable, int replays, cudaStream_t stream);

}  // namespace tessera::unfused_attention
