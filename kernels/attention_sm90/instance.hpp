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

// One file of instances/ each.
std::vector<Instance> instances_64();
std::vector<Instance> instances_80();
std::vector<Instance> instances_96();
std::vector<Instance> instances_128();
std::vector<Instance> instances_128_tiles();
std::vector<Instance> instances_256();
std::vector<Instance> instances_dropout();

}  // namespace tessera::attention_sm90
