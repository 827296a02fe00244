// SPDX-License-Identifier: Apache-2.0
// A compiled kernel, by its address and sizes.
#pragma once

#include <vector>

#include "attention.hpp"

namespace tessera::attention_sm90 {

struct Instance {
  KernelInfo info;
  void const* function = nullptr;
};

/// As launch(), by this kernel.
Expected<void> launch(Instance const& instance, Call const& call, cudaStream_t stream);

// One file of instances/ each.
std::vector<Instance> instances_64();
std::vector<Instance> instances_128();
std::vector<Instance> instances_256();
std::vector<Instance> instances_dropout();

}  // namespace tessera::attention_sm90
