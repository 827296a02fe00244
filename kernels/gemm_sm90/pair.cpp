// SPDX-License-Identifier: Apache-2.0
#include "pair.hpp"

namespace tessera::gemm_sm90 {
namespace {

// Far above any pair's time, far below a driver's watchdog.
constexpr unsigned long long deadline_ns = 1'000'000'000;

// The count of leavers has a cache line of its own, apart from the semaphores that are polled.
constexpr long long words_before_semaphores = 16;

bool gated(PairBuffers const& buffers) { return buffers.form == mlp::Form::swiglu; }

Problem first_problem(PairBuffers const& b) {
  return {b.tokens,
          gated(b) ? 2 * b.hidden : b.hidden,
          b.model,
          b.x,
          b.w1,
          b.h,
          gated(b) ? Activation::swiglu : Activation::gelu};
}

Problem second_problem(PairBuffers const& b) {
  return {b.tokens, b.model, b.hidden, b.h, b.w2, b.y, Activation::none};
}

Call call_of(Half const& half, Problem const& problem) {
  Call call;
  call.problem = problem;
  call.band = half.band;
  call.most_blocks = half.most_blocks;
  call.early_weights = false;
  return call;
}

bool both(PairPlan const& plan) { return plan.first.kernel != nullptr && plan.second.kernel != nullptr; }

long long semaphore_words(PairPlan const& plan, PairBuffers const& buffers) {
  if (plan.mechanism != Mechanism::pdl_tiles || !both(plan)) return 0;
  auto const semaphores =
      semaphores_of(plan.first.kernel->info, first_problem(buffers), plan.columns_per_semaphore, nullptr);
  return words_before_semaphores + (semaphores.count() + 1) / 2;
}

SplitSizes split_of(Half const& half, Problem const& problem) {
  return half.kernel == nullptr ? SplitSizes{} : split_sizes(half.kernel->info, problem);
}

}  // namespace

long long counters_of(PairPlan const& plan, PairBuffers const& buffers) {
  return semaphore_words(plan, buffers) + (split_of(plan.first, first_problem(buffers)).arrivals + 1) / 2 +
         (split_of(plan.second, second_problem(buffers)).arrivals + 1) / 2;
}

std::size_t sum_bytes_of(PairPlan const& plan, PairBuffers const& buffers) {
  // Not in the same place: the first kernel may still add where the second one is there already.
  return split_of(plan.first, first_problem(buffers)).sum_bytes +
         split_of(plan.second, second_problem(buffers)).sum_bytes;
}

PairCalls calls_of(PairPlan const& plan, PairBuffers const& buffers) {
  PairCalls calls{call_of(plan.first, first_problem(buffers)), call_of(plan.second, second_problem(buffers))};
  if (buffers.counters != nullptr && buffers.sums != nullptr) {
    auto const sizes = split_of(plan.first, calls.first.problem);
    auto* const arrivals = reinterpret_cast<unsigned*>(buffers.counters + semaphore_words(plan, buffers));
    calls.first.split = {buffers.sums, arrivals};
    calls.second.split = {buffers.sums + sizes.sum_bytes / sizeof(float),
                          arrivals + (sizes.arrivals + 1) / 2 * 2};
  }
  if (!both(plan)) return calls;
  calls.first.programmatic = plan.chained;
  calls.first.early_weights = plan.early_weights && plan.chained;
  calls.second.programmatic = plan.mechanism != Mechanism::stream_order;
  calls.second.early_weights = plan.early_weights && calls.second.programmatic;
  if (plan.mechanism == Mechanism::pdl_tiles) {
    auto* const semaphores = reinterpret_cast<unsigned*>(buffers.counters + words_before_semaphores);
    calls.first.posts =
        semaphores_of(plan.first.kernel->info, calls.first.problem, plan.columns_per_semaphore, semaphores);
    calls.second.waits = calls.first.posts;
    calls.second.left = buffers.counters;
    calls.second.watch = {buffers.stall, deadline_ns};
    calls.second.stage = 1;
  }
  return calls;
}

bool can_implement(PairPlan const& plan, PairBuffers const& buffers) {
  if (!both(plan)) return false;
  for (Half const* half : {&plan.first, &plan.second})
    if (half->kernel->info.type != buffers.type) return false;
  PairCalls const calls = calls_of(plan, buffers);
  return plan.first.kernel->can_implement(calls.first) && plan.second.kernel->can_implement(calls.second);
}

cudaError_t launch_pair(PairPlan const& plan, PairBuffers const& buffers, cudaStream_t stream) {
  if (!can_implement(plan, buffers)) return cudaErrorInvalidValue;
  PairCalls const calls = calls_of(plan, buffers);
  cudaError_t const error = plan.first.kernel->launch(calls.first, stream);
  return error != cudaSuccess ? error : plan.second.kernel->launch(calls.second, stream);
}

}  // namespace tessera::gemm_sm90
