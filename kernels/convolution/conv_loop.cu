// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/conv_loop.hpp"

#include <memory>

#include "kernels/common/refusal.hpp"
#include "kernels/convolution/operation.cuh"
#include "src/gpu/launch.hpp"
#include "src/gpu/raise_shared.hpp"

namespace tessera::convolution {
namespace {

template <class Element>
Expected<ConvLoop> loop_of(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages) {
  auto made = role_chain(plan, options, Convolution<Element>{stages});
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return ConvLoop{[chain](GpuStream stream) { return chain->launch(stream, 1); },
                  [chain] { return chain->finish(); }};
}

}  // namespace

Expected<ConvLoop> conv_loop(LoopPlan const& plan, RoleOptions const& options, ElementType type,
                             ConvStage const* stages) {
  return type == ElementType::bf16 ? loop_of<__nv_bfloat16>(plan, options, stages)
                                   : loop_of<__half>(plan, options, stages);
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
