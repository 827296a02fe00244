// SPDX-License-Identifier: Apache-2.0
#include "pair.hpp"

namespace tessera::gemm_sm90 {
namespace {

// Far above any pair's time, far below a driver's watchdog.
constexpr unsigned long long deadline_ns = 1'000'000'000;

// The count of leavers has a cache line of its own, apart from the semaphores that are polled.
constexpr long long words_before_semaphores = 16;

Problem first_problem(PairBuffers const& buffers) {
  return {buffers.tokens, buffers.hidden, buffers.model, buffers.x, buffers.w1, buffers.h, Activation::gelu};
}

Problem second_problem(PairBuffers const& buffers) {
  return {buffers.tokens, buffers.model, buffers.hidden, buffers.h, buffers.w2, buffers.y, Activation::none};
}

Call call_of(Half const& half, Problem const& problem) {
  Call call;
  call.problem = problem;
  call.band = half.band;
  call.most_blocks = half.most_blocks;
  return call;
}

}  // namespace

long long counters_of(PairPlan const& plan, PairBuffers const& buffers) {
  if (plan.mechanism != Mechanism::pdl_tiles) return 0;
  auto const semaphores =
      semaphores_of(plan.first.kernel->info, first_problem(buffers), plan.columns_per_semaphore, nullptr);
  return words_before_semaphores + (semaphores.count() + 1) / 2;
}

cudaError_t launch_pair(PairPlan const& plan, PairBuffers const& buffers, cudaStream_t stream) {
  Call first = call_of(plan.first, first_problem(buffers));
  Call second = call_of(plan.second, second_problem(buffers));
  second.programmatic = plan.mechanism != Mechanism::stream_order;
  second.early_weights = plan.early_weights && second.programmatic;
  // The first one's input comes from kernels that are complete when it starts: nothing to load early.
  first.early_weights = false;
  if (plan.mechanism == Mechanism::pdl_tiles) {
    auto* const semaphores = reinterpret_cast<unsigned*>(buffers.counters + words_before_semaphores);
    first.posts =
        semaphores_of(plan.first.kernel->info, first.problem, plan.columns_per_semaphore, semaphores);
    second.waits = first.posts;
    second.left = buffers.counters;
    second.watch = {buffers.stall, deadline_ns};
    second.stage = 1;
  }
  cudaError_t const error = plan.first.kernel->launch(first, stream);
  return error != cudaSuccess ? error : plan.second.kernel->launch(second, stream);
}

}  // namespace tessera::gemm_sm90
