// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <array>

namespace tessera::skinny_sm90 {
namespace {

/// What a block may have of shared memory, all of which its rings take; registers as __launch_bounds__ of one
/// block leaves them to so many threads.
constexpr int k_shared_bytes = 227 * 1024, k_registers = 168;
/// A semaphore of the second product stands for so many columns of the first one's output.
constexpr int k_columns = 64;

struct Shape {
  int tokens;  ///< most of them
  int threads;
};
constexpr std::array k_shapes{Shape{8, 256}, Shape{16, 256}, Shape{32, 256}, Shape{64, 256}, Shape{128, 384}};

}  // namespace

std::vector<KernelEntry> catalogue() {
  std::vector<KernelEntry> result;
  for (auto const& [tokens, threads] : k_shapes) {
    KernelEntry kernel;
    kernel.name = "few_tokens_" + std::to_string(tokens);
    kernel.family = "few_tokens";
    kernel.architectures = {"sm_90"};
    kernel.kind = OperatorKind::gemm;
    kernel.tile_m = tokens;
    kernel.tile_n = k_columns;
    kernel.tile_k = 64;
    KernelForm form;
    form.types = {ElementType::bf16, ElementType::fp16};
    form.epilogues = {Epilogue::none, Epilogue::gelu};
    form.pipeline_stages = 4;
    form.resources = {threads, k_registers, k_shared_bytes};
    kernel.forms = {form};
    // A gate is in neighbouring rows of weights: twice as many of them to a semaphore.
    form.epilogues = {Epilogue::swiglu};
    kernel.forms.push_back(form);
    kernel.can.run_alone = kernel.can.run_beside = false;  // both products of an MLP, one launch
    kernel.can.bands = kernel.can.any_order = false;
    result.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace tessera::skinny_sm90
