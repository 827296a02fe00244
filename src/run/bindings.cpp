// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/bindings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"

namespace tessera {
namespace {

Diagnostic finding(char const* code, Stage const& stage, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = code;
  d.where = stage.where;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return d;
}

std::string size_text(std::int64_t rows, std::int64_t columns, std::int64_t batch, std::string const& type) {
  return fmt::format("{} x {}{} of {}", rows, columns, batch == 1 ? "" : fmt::format(" x {}", batch), type);
}

/// The family of a launch's kernels.
Expected<std::string> family_of(BindRequest const& request) {
  std::string family;
  for (int i = 0; i < request.planned().stages; ++i) {
    auto const& stage = request.stage(i);
    auto const* kernel = request.kernels.find(stage.kernel);
    if (kernel == nullptr) {
      std::vector<std::string> names;
      for (auto const& known : request.kernels.kernels()) names.push_back(known.name);
      return refuse(finding("E0562", stage,
                            fmt::format("kernel \"{}\" of {} is not registered", stage.kernel, stage.name),
                            did_you_mean(stage.kernel, names)));
    }
    if (family.empty()) family = kernel->family;
    if (family != kernel->family)
      return refuse(
          finding("E0562", stage,
                  fmt::format("{} is in one launch with kernels of family {}, but {} is of family {}",
                              stage.name, family, kernel->name, kernel->family),
                  "let kernels of different families be launches of their own"));
  }
  return family;
}

}  // namespace

void LentMemory::begin(void* at) {
  at_ = static_cast<char*>(at);
  bytes_ = 0;
  places_.clear();
}

void* LentMemory::place(std::string const& name, std::size_t bytes) {
  auto& known = places_[name];
  if (known.bytes < bytes) {
    known = {(bytes_ + 255) / 256 * 256, bytes};
    bytes_ = known.offset + bytes;
  }
  return at_ + known.offset;
}

LentMemory& Scratch::lend(void* at) {
  lending_ = true;
  lent_.begin(at);
  return lent_;
}

Expected<StageKernel> cannot_bind(BindRequest const& request, int index, std::string const& field,
                                  std::string const& why, std::string const& way_out) {
  auto const& stage = request.stage(index);
  return refuse(finding(
      "E0560", stage,
      fmt::format("{} of {} cannot run in kernel {}: {}", field, stage.name, stage.kernel, why), way_out));
}

Expected<Tensor> tensor_of(BindRequest const& request, int index, std::string const& operand) {
  auto const& stage = request.stage(index);
  auto name = stage.output.empty() ? stage.name : stage.output;
  if (!operand.empty()) {
    name.clear();
    for (auto const& each : stage.operands)
      if (each.name == operand) name = each.buffer;
    if (name.empty())
      return refuse(finding("E0561", stage, fmt::format("{} has no operand \"{}\"", stage.name, operand),
                            "name the operands as the kernel knows them"));
  }
  auto const found = request.tensors.find(name);
  if (found == request.tensors.end() || found->second.data == nullptr)
    return refuse(finding("E0561", stage,
                          fmt::format("there is no tensor for buffer \"{}\" of {}", name, stage.name),
                          "give a tensor for every buffer of the pipeline"));
  auto const& tensor = found->second;
  for (auto const& buffer : request.plan.pipeline.buffers) {
    if (buffer.name != name) continue;
    auto const type = buffer.type.empty() ? std::string(to_text(tensor.type)) : buffer.type;
    auto const planned = size_text(buffer.rows, buffer.columns, buffer.batch, type);
    auto const given = size_text(tensor.rows, tensor.columns, tensor.batch, to_text(tensor.type));
    if (planned != given)
      return refuse(finding("E0561", stage,
                            fmt::format("the tensor for buffer \"{}\" of {} is {}, the plan's buffer is {}",
                                        name, stage.name, given, planned),
                            "plan for the sizes and the type that the tensors have"));
  }
  if (tensor.stride() < tensor.columns)
    return refuse(finding("E0561", stage,
                          fmt::format("rows of {} elements in buffer \"{}\" are {} elements apart",
                                      tensor.columns, name, tensor.stride()),
                          "let rows be at least as far apart as they are long"));
  return tensor;
}

Expected<void> add_kernel(Registry& kernels, Bindings& bindings, KernelEntry kernel, Bind bind) {
  auto family = kernel.family;
  if (auto added = kernels.add(std::move(kernel)); !added) return added;
  bindings.add(std::move(family), std::move(bind));
  return {};
}

namespace {

/// The family's binding, for a launch whose stages it can read.
Expected<Bindings::Family const*> binding_of(BindRequest const& request, Bindings const& bindings) {
  auto const family = family_of(request);
  if (!family) return tl::make_unexpected(family.error());
  auto const* binding = bindings.find(*family);
  if (binding == nullptr)
    return refuse(finding("E0562", request.stage(),
                          fmt::format("kernel {} of {} cannot be launched: family {} has no binding",
                                      request.stage().kernel, request.stage().name, *family),
                          *family == "published"
                              ? "its tiles are there to be planned and simulated: plan for a "
                                "machine whose kernels are compiled"
                              : "add the family's binding to the Bindings"));
  for (int i = 0; i < request.planned().stages; ++i)
    if (auto const& variant = request.stage_plan(i).variant;
        !variant.empty() && (i > 0 || !binding->variants))
      return tl::make_unexpected(
          cannot_bind(request, i, "variant",
                      i > 0 ? "the first stage of a launch carries the variant of all"
                            : fmt::format("it has none, and the plan says \"{}\"", variant),
                      "leave the variant out")
              .error());
  return binding;
}

}  // namespace

Expected<std::vector<StageKernel>> bind_kernels(Plan const& plan, Registry const& kernels,
                                                Bindings const& bindings, Tensors const& tensors,
                                                Scratch& scratch) {
  std::vector<StageKernel> bound;
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l) {
    BindRequest const request{plan, l, kernels, tensors, scratch};
    auto const binding = binding_of(request, bindings);
    if (!binding) return tl::make_unexpected(binding.error());
    auto kernel = (*binding)->bind(request);
    if (!kernel) return tl::make_unexpected(kernel.error());
    bound.push_back(std::move(*kernel));
  }
  return bound;
}

std::vector<std::string> variants_of(Plan const& plan, int launch, Registry const& kernels,
                                     Bindings const& bindings, Tensors const& tensors, Scratch& scratch) {
  BindRequest const request{plan, launch, kernels, tensors, scratch};
  auto const binding = binding_of(request, bindings);
  if (!binding || !(*binding)->variants) return {};
  return (*binding)->variants(request);
}

}  // namespace tessera
