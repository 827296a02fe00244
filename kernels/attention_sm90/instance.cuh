// SPDX-License-Identifier: Apache-2.0
// What the host knows of an instance of the kernel. Heavy to compile: a head size to a file (instances/).
#pragma once

#include "instance.hpp"
#include "kernel.cuh"

namespace tessera::attention_sm90 {

template <class S>
Instance instance(char const* name) {
  KernelInfo info;
  info.name = name;
  info.type = std::is_same_v<typename S::Element, __half> ? ElementType::fp16 : ElementType::bf16;
  info.head_size = S::head_size;
  info.drops = S::drops;
  info.tile_queries = S::queries;
  info.tile_keys = S::keys;
  info.stages = S::stages;
  info.threads = S::threads;
  info.shared_bytes = S::shared_bytes;
  return {info, reinterpret_cast<void const*>(&attention_kernel<S>)};
}

}  // namespace tessera::attention_sm90
