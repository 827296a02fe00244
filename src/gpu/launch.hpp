// SPDX-License-Identifier: Apache-2.0
// One launch of a kernel, with the attributes that change how it may be scheduled.
#pragma once

#include "check.hpp"

namespace tessera::gpu {

struct Shape {
  dim3 blocks{1};
  dim3 threads{32};
  std::size_t shared = 0;     ///< dynamic, bytes
  dim3 cluster{1};            ///< blocks; 1, 1, 1: no clusters
  bool programmatic = false;  ///< may start once the kernel before has triggered
  bool cooperative = false;   ///< refused by the driver unless all blocks can be resident at once
  /// Of an SM's memory that should be shared memory rather than L1; -1: as the kernel's occupancy asks for.
  int shared_percent = -1;
  cudaEvent_t launch_completion = nullptr;  ///< recorded when all blocks have begun
};

/// A shape as CUDA takes it.
class LaunchConfiguration {
 public:
  LaunchConfiguration(Shape const& shape, cudaStream_t stream) {
    config_.gridDim = shape.blocks;
    config_.blockDim = shape.threads;
    config_.dynamicSmemBytes = shape.shared;
    config_.stream = stream;
    config_.attrs = attributes_;
    if (shape.programmatic)
      add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
    if (shape.cooperative) add(cudaLaunchAttributeCooperative).cooperative = 1;
    if (shape.launch_completion != nullptr)
      add(cudaLaunchAttributeLaunchCompletionEvent).launchCompletionEvent = {shape.launch_completion, 0};
    if (shape.cluster.x != 1 || shape.cluster.y != 1 || shape.cluster.z != 1)
      add(cudaLaunchAttributeClusterDimension).clusterDim = {shape.cluster.x, shape.cluster.y,
                                                             shape.cluster.z};
    if (shape.shared_percent >= 0)
      add(cudaLaunchAttributePreferredSharedMemoryCarveout).sharedMemCarveout =
          static_cast<unsigned>(shape.shared_percent);
  }
  LaunchConfiguration(LaunchConfiguration const&) = delete;
  LaunchConfiguration& operator=(LaunchConfiguration const&) = delete;

  cudaLaunchConfig_t const* get() const { return &config_; }

 private:
  cudaLaunchAttributeValue& add(cudaLaunchAttributeID id) {
    auto& attribute = attributes_[config_.numAttrs++];
    attribute.id = id;
    return attribute.val;
  }

  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attributes_[5];
};

template <class... Parameters, class... Arguments>
cudaError_t try_launch(Shape const& shape, cudaStream_t stream, void (*kernel)(Parameters...),
                       Arguments... arguments) {
  return cudaLaunchKernelEx(LaunchConfiguration(shape, stream).get(), kernel,
                            static_cast<Parameters>(arguments)...);
}

/// A kernel by its address, with the addresses of its parameters.
inline cudaError_t try_launch(Shape const& shape, cudaStream_t stream, void const* kernel,
                              void** parameters) {
  return cudaLaunchKernelExC(LaunchConfiguration(shape, stream).get(), kernel, parameters);
}

template <class... Parameters, class... Arguments>
void launch(Shape const& shape, cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  ok(try_launch(shape, stream, kernel, arguments...));
}

/// Has the SM keep as much shared memory as there is. Kernels that ask for different divisions of an SM's
/// memory into L1 and shared memory do not share one, however much room there is.
template <class... Parameters>
void prefer_shared(void (*kernel)(Parameters...)) {
  ok(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                          cudaSharedmemCarveoutMaxShared));
}

/// Lets a kernel's blocks take so much dynamic shared memory, and the SM keep as much of it as they can use;
/// loads the kernel as well.
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  prefer_shared(kernel);
}

/// Loads a kernel now: with lazy loading its first launch would wait for kernels that run.
template <class... Parameters>
cudaFuncAttributes load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, kernel));
  return attributes;
}

}  // namespace tessera::gpu
