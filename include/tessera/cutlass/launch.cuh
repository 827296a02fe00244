// SPDX-License-Identifier: Apache-2.0
// Starts a synchronized kernel of CUTLASS's as a plan says.
#pragma once

#include <cuda_runtime_api.h>
#include <cutlass/cutlass.h>

#include "gemm.cuh"

namespace tessera::cutlass_sm90 {

/// Lets the kernel use its shared memory and loads its code: once for each device, before the first launch (a
/// lazily loaded kernel behind one that spins would never start).
template <class Kernel>
cudaError_t prepare() {
  auto const* const function = reinterpret_cast<void const*>(&synchronized_gemm<Kernel>);
  cudaError_t const error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SharedStorageSize);
  cudaFuncAttributes loaded{};
  return error != cudaSuccess ? error : cudaFuncGetAttributes(&loaded, function);
}

/// `early`: when the kernel before has started instead of when it is complete. `shared_percent` of an SM's
/// memory are wanted as shared memory (ChainViews::shared_percent); -1: the driver's choice. Capturable.
template <class Kernel>
cudaError_t launch(SynchronizedLaunch<Kernel> const& planned, cudaStream_t stream, bool early,
                   int shared_percent = -1) {
  using Cluster = typename Kernel::ClusterShape;
  cudaLaunchAttribute attributes[3]{};
  cudaLaunchConfig_t config{};
  config.gridDim = planned.grid;
  config.blockDim = Kernel::get_block_shape();
  config.dynamicSmemBytes = Kernel::SharedStorageSize;
  config.stream = stream;
  config.attrs = attributes;
  attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
  attributes[config.numAttrs].val.clusterDim.x = cute::size<0>(Cluster{});
  attributes[config.numAttrs].val.clusterDim.y = cute::size<1>(Cluster{});
  attributes[config.numAttrs++].val.clusterDim.z = 1;
  if (early) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shared_percent >= 0) {
    attributes[config.numAttrs].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[config.numAttrs++].val.sharedMemCarveout = static_cast<unsigned>(shared_percent);
  }
  void* arguments[] = {const_cast<typename Kernel::Params*>(&planned.params)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(&synchronized_gemm<Kernel>), arguments);
}

}  // namespace tessera::cutlass_sm90
