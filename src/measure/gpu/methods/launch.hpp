// SPDX-License-Identifier: Apache-2.0
// One launch of a kernel, with the attributes that change how it may be scheduled.
#pragma once

#include "check.hpp"

namespace tessera::probe {

struct Shape {
  unsigned blocks = 1;
  unsigned threads = 32;
  std::size_t shared = 0;     ///< dynamic, bytes
  unsigned cluster = 1;       ///< blocks
  bool programmatic = false;  ///< may start once the kernel before has triggered
  bool cooperative = false;
  cudaEvent_t launch_completion = nullptr;  ///< recorded when all blocks have begun
};

template <class... Parameters, class... Arguments>
cudaError_t try_launch(Shape const& shape, cudaStream_t stream, void (*kernel)(Parameters...),
                       Arguments... arguments) {
  cudaLaunchAttribute attributes[4];
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  config.attrs = attributes;
  if (shape.programmatic) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (shape.launch_completion != nullptr) {
    attributes[config.numAttrs].id = cudaLaunchAttributeLaunchCompletionEvent;
    attributes[config.numAttrs].val.launchCompletionEvent.event = shape.launch_completion;
    attributes[config.numAttrs++].val.launchCompletionEvent.flags = 0;
  }
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = shape.cluster;
    attributes[config.numAttrs].val.clusterDim.y = 1;
    attributes[config.numAttrs++].val.clusterDim.z = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

template <class... Parameters, class... Arguments>
void launch(Shape const& shape, cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  ok(try_launch(shape, stream, kernel, arguments...));
}

/// Lets a kernel's blocks take so much dynamic shared memory, and the SM keep as much of it as they can use;
/// loads the kernel as well.
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  ok(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                          cudaSharedmemCarveoutMaxShared));
}

/// Loads a kernel now: with lazy loading its first launch would wait for kernels that run.
template <class... Parameters>
cudaFuncAttributes load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, kernel));
  return attributes;
}

}  // namespace tessera::probe
