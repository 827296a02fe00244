// SPDX-License-Identifier: Apache-2.0
// Sets of operands that are used in turns: together they are larger than the L2 cache, so that nothing of a
// set is left in it when its turn comes again.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrices.hpp"

namespace tessera::bench {

/// What a buffer of a set holds from the start.
using Fill = std::function<void(void* memory, std::size_t bytes, int set, cudaStream_t stream)>;

/// Normal numbers; each set has others (seed + set).
Fill random_numbers(ElementType type, unsigned long long seed, double deviation);
Fill zeros();

/// A buffer that each set has.
struct Operand {
  std::string name;
  std::size_t bytes = 0;
  Fill fill{};  ///< none: the memory is as it is allocated
};

/// How many sets of so many bytes are ten times the L2 cache of an H200; within least and most.
int sets_beyond_l2(std::size_t bytes_of_a_set, int least = 3, int most = 12);

/// Owns the memory of all sets.
class OperandSets {
 public:
  OperandSets() = default;
  ~OperandSets();
  OperandSets(OperandSets const&) = delete;
  OperandSets& operator=(OperandSets const&) = delete;

  /// Replaces what it holds by `count` sets and waits until they are filled. CUDA's first error.
  cudaError_t make(std::vector<Operand> const& operands, int count, cudaStream_t stream);

  int count() const { return count_; }
  /// The buffer of that name in a set; null if there is none.
  void* at(std::string const& name, int set = 0) const;
  template <class T>
  T* as(std::string const& name, int set = 0) const {
    return static_cast<T*>(at(name, set));
  }

 private:
  void release();

  std::vector<std::string> names_;
  std::vector<void*> memory_;  ///< set by set, in the order of the names
  int count_ = 0;
};

}  // namespace tessera::bench
