// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "describe/limits.hpp"

namespace tessera {
namespace {

template <class T>
bool has(std::vector<T> const& list, T const& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// Why no stage could be made of this kernel, or empty.
std::string problem_of(KernelEntry const& kernel) {
  if (kernel.name.empty()) return "it has no name";
  if (kernel.architectures.empty()) return "it is for no architecture";
  if (kernel.tile_m < 1 || kernel.tile_n < 1 || kernel.tile_k < 1)
    return fmt::format("a tile of {} x {} x {} is not possible", kernel.tile_m, kernel.tile_n, kernel.tile_k);
  if (kernel.cluster_m < 1 || kernel.cluster_n < 1)
    return fmt::format("a cluster of {} x {} is not possible", kernel.cluster_m, kernel.cluster_n);
  if (kernel.splits < k_any_splits) return fmt::format("{} splits are not possible", kernel.splits);
  if (kernel.efficiency <= 0 || kernel.efficiency > 1)
    return fmt::format("an efficiency of {} is not possible", kernel.efficiency);
  if (kernel.whole && (kernel.can.wait || kernel.can.post))
    return "one launch for the whole output can neither wait for tiles nor post them";
  if (kernel.forms.empty()) return "it has no form";
  for (auto const& form : kernel.forms)
    if (form.types.empty() || form.epilogues.empty() || form.pipeline_stages < 1)
      return "a form needs a type, an epilogue and a slice in flight";
  for (auto const& form : kernel.forms)
    if (form.pipeline_stages > k_most_pipeline_stages)
      return fmt::format("a form has {} slices in flight, and a block's shared memory has room for {}",
                         form.pipeline_stages, k_most_pipeline_stages);
  return {};
}

}  // namespace

int bytes_of(ElementType type) {
  switch (type) {
    case ElementType::bf16:
    case ElementType::fp16: return 2;
    case ElementType::fp32:
    case ElementType::int32: return 4;
    case ElementType::fp64: return 8;
  }
  return 0;
}

char const* to_text(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::gemm: return "gemm";
    case OperatorKind::softmax_dropout: return "softmax_dropout";
    case OperatorKind::conv2d: return "conv2d";
    case OperatorKind::copy: return "copy";
    case OperatorKind::sum: return "sum";
    case OperatorKind::attention: return "attention";
    case OperatorKind::norm: return "norm";
    case OperatorKind::turn_heads: return "turn_heads";
  }
  return "";
}

char const* to_text(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: return "none";
    case Epilogue::gelu: return "gelu";
    case Epilogue::swiglu: return "swiglu";
    case Epilogue::geglu: return "geglu";
    case Epilogue::residual: return "residual";
  }
  return "";
}

char const* to_text(ElementType type) {
  switch (type) {
    case ElementType::bf16: return "bf16";
    case ElementType::fp16: return "fp16";
    case ElementType::fp32: return "fp32";
    case ElementType::fp64: return "fp64";
    case ElementType::int32: return "int32";
  }
  return "";
}

KernelForm const* find_form(KernelEntry const& kernel, Epilogue epilogue, ElementType type) {
  for (auto const& form : kernel.forms)
    if (has(form.types, type) && has(form.epilogues, epilogue)) return &form;
  return nullptr;
}

Expected<void> Registry::add(KernelEntry kernel) {
  auto problem = problem_of(kernel);
  if (problem.empty() && find(kernel.name) != nullptr) problem = "a kernel of this name is there already";
  if (!problem.empty()) {
    Diagnostic d;
    d.code = "E0155";
    d.message = fmt::format("kernel \"{}\" cannot be registered: {}", kernel.name, problem);
    d.suggestion = "give every kernel a name of its own, an architecture, a tile and a form";
    return refuse(std::move(d));
  }
  kernels_.push_back(std::move(kernel));
  return {};
}

KernelEntry const* Registry::find(std::string_view name) const {
  for (auto const& kernel : kernels_)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

std::vector<KernelEntry> Registry::for_architecture(std::string_view architecture) const {
  std::vector<KernelEntry> result;
  for (auto const& kernel : kernels_)
    if (has(kernel.architectures, std::string(architecture))) result.push_back(kernel);
  return result;
}

}  // namespace tessera
