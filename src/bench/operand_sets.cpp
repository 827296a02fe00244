// SPDX-License-Identifier: Apache-2.0
#include "operand_sets.hpp"

#include <algorithm>

namespace tessera::bench {
namespace {

constexpr std::size_t rotated_bytes = 600u << 20;

}  // namespace

Fill random_numbers(ElementType type, unsigned long long seed, double deviation) {
  return [=](void* memory, std::size_t bytes, int set, cudaStream_t stream) {
    fill_random(memory, bytes / 2, type, seed + static_cast<unsigned long long>(set),
                static_cast<float>(deviation), stream);
  };
}

Fill zeros() {
  return [](void* memory, std::size_t bytes, int, cudaStream_t stream) {
    cudaMemsetAsync(memory, 0, bytes, stream);
  };
}

int sets_beyond_l2(std::size_t bytes_of_a_set, int least, int most) {
  auto const wanted = rotated_bytes / std::max<std::size_t>(bytes_of_a_set, 1) + 1;
  return static_cast<int>(
      std::clamp(wanted, static_cast<std::size_t>(least), static_cast<std::size_t>(most)));
}

OperandSets::~OperandSets() { release(); }

void OperandSets::release() {
  for (auto* const one : memory_) cudaFree(one);
  memory_.clear();
  names_.clear();
  count_ = 0;
}

cudaError_t OperandSets::make(std::vector<Operand> const& operands, int count, cudaStream_t stream) {
  release();
  for (auto const& one : operands) names_.push_back(one.name);
  for (int set = 0; set < count; ++set)
    for (auto const& one : operands) {
      void* made = nullptr;
      if (auto const error = cudaMalloc(&made, std::max<std::size_t>(one.bytes, 1)); error != cudaSuccess)
        return error;
      memory_.push_back(made);
      if (one.fill) one.fill(made, one.bytes, set, stream);
    }
  count_ = count;
  return cudaStreamSynchronize(stream);
}

void* OperandSets::at(std::string const& name, int set) const {
  auto const found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end() || set < 0 || set >= count_) return nullptr;
  return memory_[static_cast<std::size_t>(set) * names_.size() +
                 static_cast<std::size_t>(found - names_.begin())];
}

}  // namespace tessera::bench
