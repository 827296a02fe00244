// SPDX-License-Identifier: Apache-2.0
#include "plan_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <type_traits>

#include "kernels/common/refusal.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::plan_check {
namespace {

std::optional<ElementType> type_called(std::string const& name) {
  for (auto const type :
       {ElementType::bf16, ElementType::fp16, ElementType::fp32, ElementType::fp64, ElementType::int32})
    if (name == to_text(type)) return type;
  return {};
}

/// What a buffer from outside is read as.
struct Role {
  OperatorKind kind = OperatorKind::gemm;
  std::string operand;
};
Role role_of(Plan const& plan, std::string const& buffer) {
  for (auto const& stage : plan.pipeline.stages)
    for (auto const& operand : stage.operands)
      if (operand.buffer == buffer) return {kind_of(stage), operand.name};
  return {};
}

template <class Element>
Expected<void> upload(Tensor const& tensor, std::vector<Element> const& values) {
  auto const error = cudaMemcpy(tensor.data, values.data(), bytes(tensor), cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return kernels::cuda_failed(error, "filling a buffer");
  return {};
}

/// Not around zero: the sum of many would be next to nothing beside its terms.
template <class Element>
Expected<void> fill_terms(Tensor const& tensor, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Element> values(elements(tensor));
  for (auto& value : values) {
    auto const number = static_cast<Element>(random() % 1000);
    value = std::is_integral_v<Element> ? number : number / 1000;
  }
  return upload(tensor, values);
}

Expected<void> fill_normal(Tensor const& tensor, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(elements(tensor));
  for (auto& value : values) value = normal(random);
  return upload(tensor, values);
}

/// Cosine and sine of each position and pair, as of a model without scaled frequencies.
Expected<void> fill_turns(Tensor const& tensor) {
  std::vector<float> values;
  values.reserve(elements(tensor));
  for (std::int64_t position = 0; position < tensor.rows; ++position)
    for (std::int64_t pair = 0; pair < tensor.columns / 2; ++pair) {
      auto const angle =
          static_cast<double>(position) *
          std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(tensor.columns));
      values.push_back(static_cast<float>(std::cos(angle)));
      values.push_back(static_cast<float>(std::sin(angle)));
    }
  values.resize(elements(tensor));
  return upload(tensor, values);
}

/// Where prompts begin, or each row's position in its own.
Expected<void> fill_places(Tensor const& tensor, std::vector<std::int32_t> const& values,
                           std::string const& operand) {
  if (tensor.type == ElementType::int32 && values.size() == elements(tensor)) return upload(tensor, values);
  return kernels::refusal("E0563",
                          fmt::format("{} are {} of {}, and the prompts have {} of int32", operand,
                                      elements(tensor), to_text(tensor.type), values.size()),
                          "make the plan again");
}

/// Tokens that each sequence has before its new one: as many as a plan's cache has room for.
Expected<void> fill_lengths(Plan const& plan, Tensor const& tensor) {
  for (auto const& stage : plan.pipeline.stages)
    if (auto const* cache = operand_of(stage, "b_cached"); cache != nullptr)
      for (auto const& buffer : plan.pipeline.buffers)
        if (buffer.name == cache->buffer && tensor.type == ElementType::int32)
          return upload(tensor, std::vector<std::int32_t>(elements(tensor),
                                                          static_cast<std::int32_t>(buffer.rows - 1)));
  return kernels::refusal("E0563", "lengths are not int32, or the plan has no cache that they are of",
                          "make the plan again");
}

/// Activations of deviation 1, weights of 1 / sqrt(depth): so is a product of them of deviation 1.
Expected<void> fill(Tensor const& tensor, Role const& role, Prompts const& prompts, unsigned seed,
                    cudaStream_t stream) {
  if (role.kind == OperatorKind::attention && role.operand == "offsets")
    return fill_places(tensor, offsets_of(prompts), role.operand);
  if (role.kind == OperatorKind::turn_heads && role.operand == "positions")
    return fill_places(tensor, positions_of(prompts), role.operand);
  switch (tensor.type) {
    case ElementType::fp64: return fill_terms<double>(tensor, seed);
    case ElementType::int32: return fill_terms<std::int32_t>(tensor, seed);
    case ElementType::fp32:
      if (role.kind == OperatorKind::sum) return fill_terms<float>(tensor, seed);
      return role.operand == "turns" ? fill_turns(tensor) : fill_normal(tensor, seed);
    default: break;
  }
  bool const weights = role.kind == OperatorKind::gemm && role.operand == "b";
  bench::fill_random(tensor.data, elements(tensor),
                     tensor.type == ElementType::fp16 ? bench::ElementType::fp16 : bench::ElementType::bf16,
                     seed, weights ? 1 / std::sqrt(static_cast<float>(tensor.columns)) : 1, stream);
  return {};
}

/// The buffer whose memory a stage writes: that of what it turns, or its own.
std::string place_of(Stage const& stage) {
  auto const* turned = operand_of(stage, "a");
  return kind_of(stage) == OperatorKind::turn_heads && turned != nullptr ? turned->buffer : output_of(stage);
}

}  // namespace

Expected<Memory> allocate(std::size_t bytes) {
  void* memory = nullptr;
  auto const error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) return Memory(memory);
  auto refused = kernels::cuda_failed(error, fmt::format("allocating {} bytes", bytes));
  if (error == cudaErrorMemoryAllocation)
    refused.value().front().suggestion = "run fewer tokens or a share (--tp), or free the GPU's memory";
  return refused;
}

std::size_t elements(Tensor const& tensor) {
  return static_cast<std::size_t>(tensor.rows * tensor.columns * tensor.batch);
}
std::size_t bytes(Tensor const& tensor) {
  return elements(tensor) * static_cast<std::size_t>(bytes_of(tensor.type));
}
std::string output_of(Stage const& stage) { return stage.output.empty() ? stage.name : stage.output; }
OperatorKind kind_of(Stage const& stage) {
  auto const* kernel = shipped_kernels().find(stage.kernel);
  return kernel == nullptr ? OperatorKind::gemm : kernel->kind;
}
Operand const* operand_of(Stage const& stage, std::string const& name) {
  auto const found = std::find_if(stage.operands.begin(), stage.operands.end(),
                                  [&](Operand const& one) { return one.name == name; });
  return found == stage.operands.end() ? nullptr : &*found;
}

Expected<void> Buffers::make(Plan const& plan, Buffer const& buffer, unsigned seed, cudaStream_t stream) {
  Tensor tensor;
  tensor.rows = buffer.rows;
  tensor.columns = buffer.columns;
  tensor.batch = buffer.batch;
  auto const type = type_called(buffer.type);
  if (!type)
    return kernels::refusal(
        "E0563", fmt::format("buffer \"{}\" is of no type: nothing can be put into it", buffer.name),
        "plan operators, whose buffers have types, or give the plan's buffer one");
  tensor.type = *type;
  auto memory = allocate(bytes(tensor));
  if (!memory) return tl::make_unexpected(memory.error());
  tensor.data = memory->get();
  memory_.push_back(std::move(*memory));
  tensors[buffer.name] = tensor;
  auto const& stages = plan.pipeline.stages;
  if (std::any_of(stages.begin(), stages.end(),
                  [&](Stage const& stage) { return output_of(stage) == buffer.name; })) {
    outputs_.push_back(tensor);
    return {};
  }
  auto const role = role_of(plan, buffer.name);
  if (role.kind == OperatorKind::attention && role.operand == "lengths") return fill_lengths(plan, tensor);
  return fill(tensor, role, prompts, seed, stream);
}

Expected<void> Buffers::keep(Plan const& plan, cudaStream_t stream) {
  for (auto const& stage : plan.pipeline.stages) {
    if (kind_of(stage) != OperatorKind::norm || operand_of(stage, "shift") == nullptr) continue;
    auto const& name = operand_of(stage, "a")->buffer;
    auto const& stages = plan.pipeline.stages;
    if (std::any_of(stages.begin(), stages.end(), [&](Stage const& one) { return output_of(one) == name; }))
      continue;
    auto const& tensor = tensors[name];
    auto copy = allocate(bytes(tensor));
    if (!copy) return tl::make_unexpected(copy.error());
    auto const error =
        cudaMemcpyAsync(copy->get(), tensor.data, bytes(tensor), cudaMemcpyDeviceToDevice, stream);
    if (error != cudaSuccess) return kernels::cuda_failed(error, "keeping a buffer");
    kept_[name] = std::move(*copy);
  }
  return {};
}

Expected<void> Buffers::make(Plan const& plan, cudaStream_t stream, Prompts const& lengths) {
  if (auto fine = check_prompts(plan, lengths); !fine) return fine;
  prompts = lengths;
  std::map<std::string, std::string> shared;
  for (auto const& stage : plan.pipeline.stages)
    if (auto const place = place_of(stage); place != output_of(stage)) shared[output_of(stage)] = place;
  unsigned seed = 1;
  for (auto const& buffer : plan.pipeline.buffers)
    if (shared.count(buffer.name) == 0)
      if (auto made = make(plan, buffer, seed++, stream); !made) return made;
  for (auto const& buffer : plan.pipeline.buffers)
    if (auto const place = shared.find(buffer.name); place != shared.end()) {
      auto const from = tensors.find(place->second);
      if (from == tensors.end() || from->second.rows != buffer.rows || from->second.columns != buffer.columns)
        return kernels::refusal(
            "E0563",
            fmt::format("buffer \"{}\" is turned heads, and not of the size of \"{}\", where they lie",
                        buffer.name, place->second),
            "let both buffers of the plan be of one size");
      tensors[buffer.name] = from->second;
    }
  return keep(plan, stream);
}

void Buffers::poison(cudaStream_t stream) const {
  for (auto const& tensor : outputs_) bench::poison(tensor.data, bytes(tensor) / 2, stream);
  for (auto const& [name, memory] : kept_) {
    auto const& tensor = tensors.at(name);
    (void)cudaMemcpyAsync(tensor.data, memory.get(), bytes(tensor), cudaMemcpyDeviceToDevice, stream);
  }
}

void const* Buffers::before(std::string const& buffer) const {
  auto const found = kept_.find(buffer);
  return found == kept_.end() ? nullptr : found->second.get();
}

}  // namespace tessera::plan_check
