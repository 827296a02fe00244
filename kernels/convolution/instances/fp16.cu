// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/refusal.hpp"
#include "kernels/convolution/conv_loop.cuh"
#include "src/gpu/launch.hpp"
#include "src/gpu/raise_shared.hpp"

namespace tessera::convolution {

Expected<ConvLoop> loop_of_fp16(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages) {
  return loop_of<__half>(plan, options, stages);
}

Expected<Places> places_on_device(int sms) {
  // Where clusters fit depends on their size and on shared memory alone, which is an SM's: any kernel says.
  auto const kernel = &role_kernel<DeadlineWatch<>, Convolution<__half>>;
  constexpr int shared = 226 * 1024;
  Places places;
  places.sms = sms;
  if (auto const e = gpu::raise_shared(reinterpret_cast<void const*>(kernel), shared); e != cudaSuccess)
    return kernels::cuda_failed(e, "cudaFuncSetAttribute for convolutions");
  for (int i = 0; i < 3; ++i) {
    gpu::Shape shape;
    shape.cluster = dim3(2u << i);
    shape.blocks = shape.cluster;
    shape.threads = detail::compute_threads<Convolution<__half>>() + 32 * detail::k_role_loader_warps;
    shape.shared = shared;
    if (auto const e = cudaOccupancyMaxActiveClusters(&places.clusters[i], kernel,
                                                      gpu::LaunchConfiguration(shape, nullptr).get());
        e != cudaSuccess)
      return kernels::cuda_failed(e, "cudaOccupancyMaxActiveClusters for convolutions");
  }
  return places;
}

}  // namespace tessera::convolution
