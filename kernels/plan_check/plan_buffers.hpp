// SPDX-License-Identifier: Apache-2.0
// The buffers of a plan in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prompts.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera::plan_check {

/// Device memory that frees itself.
struct FreeMemory {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;
/// E0511.
Expected<Memory> allocate(std::size_t bytes);

std::size_t elements(Tensor const& tensor);
std::size_t bytes(Tensor const& tensor);
std::string output_of(Stage const& stage);
/// Of its kernel; of one that is not shipped: a product.
OperatorKind kind_of(Stage const& stage);
Operand const* operand_of(Stage const& stage, std::string const& name);

class Buffers {
 public:
  /// Random where nothing writes, the same for the same plan; poison elsewhere. Heads that are turned have
  /// one place with those that are not. E0563 for buffers whose type the plan does not say, and for prompts
  /// that are not the plan's (check_prompts()); E0511.
  Expected<void> make(Plan const& plan, cudaStream_t stream, Prompts const& prompts = {});
  /// Makes all that stages write NaN, and what comes from outside and is stored again as it was.
  void poison(cudaStream_t stream) const;
  /// What poison() puts into a buffer from outside that a norm stores again; null: nothing does.
  void const* before(std::string const& buffer) const;

  Tensors tensors;
  Prompts prompts;  ///< of unequal length

 private:
  Expected<void> make(Plan const& plan, Buffer const& buffer, unsigned seed, cudaStream_t stream);
  Expected<void> keep(Plan const& plan, cudaStream_t stream);

  std::vector<Memory> memory_;
  std::vector<Tensor> outputs_;
  std::map<std::string, Memory> kept_;
};

}  // namespace tessera::plan_check
