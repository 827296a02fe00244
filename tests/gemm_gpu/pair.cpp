// SPDX-License-Identifier: Apache-2.0
#include "pair.hpp"

#include <algorithm>

namespace tessera::gemm_sm90 {
namespace {

// Far above any pair's time, far below a driver's watchdog.
constexpr unsigned long long deadline_ns = 1'000'000'000;

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
  call.stage.triggers_at_start = true;
  return call;
}

bool both(PairPlan const& plan) { return plan.first.kernel != nullptr && plan.second.kernel != nullptr; }

/// The first GEMM's tiles: so many neighbours of a row share a semaphore.
struct Semaphores {
  TileGrid grid;
  SemaphoreMap map;
};
Semaphores semaphores_of(PairPlan const& plan, Problem const& problem) {
  Semaphores result;
  result.grid = tiles_of(plan.first.kernel->info, problem);
  result.map.dimension[0] = {Grouping::block,
                             std::clamp(plan.columns_per_semaphore, 1, std::max(1, result.grid.extent[0]))};
  return result;
}

constexpr long long counter_words = counters_for(2);

long long semaphore_words(PairPlan const& plan, PairBuffers const& buffers) {
  if (plan.mechanism != Mechanism::pdl_tiles || !both(plan)) return 0;
  auto const [grid, map] = semaphores_of(plan, first_problem(buffers));
  return counter_words + (map.count(grid) + 1) / 2;
}

/// What describe_stages() would make of a plan of the two.
void wait_by_tiles(PairPlan const& plan, PairBuffers const& buffers, PairCalls& calls) {
  auto const& producer = plan.first.kernel->info;
  auto const [grid, map] = semaphores_of(plan, calls.first.problem);
  ChainMemory const memory{reinterpret_cast<unsigned*>(buffers.counters + counter_words), buffers.counters};
  auto& post = calls.first.stage;
  post.grid = grid;
  post.splits = producer.splits;
  post.posts = 1;
  std::vector<RuntimeWait> table;
  post.post = runtime_set(map, grid, producer.splits, 0, table);
  if (!table.empty()) post.post.table = buffers.table;
  auto& wait = calls.second.stage;
  wait.index = 1;
  wait.grid = tiles_of(plan.second.kernel->info, calls.second.problem);
  wait.needs_epoch = true;
  wait.operand[0].produced = wait.operand[0].has_set = true;
  wait.operand[0].waits_for_grid = false;
  wait.operand[0].set = post.post;
  calls.second.producer = output_tile(producer);
  calls.second.watch = {buffers.stall, deadline_ns};
  calls.first.memory = calls.second.memory = memory;
}

SplitSizes split_of(Half const& half, Problem const& problem) {
  return half.kernel == nullptr ? SplitSizes{} : split_sizes(half.kernel->info, problem);
}

}  // namespace

std::vector<RuntimeWait> table_of(PairPlan const& plan, PairBuffers const& buffers) {
  std::vector<RuntimeWait> table;
  if (plan.mechanism != Mechanism::pdl_tiles || !both(plan)) return table;
  auto const [grid, map] = semaphores_of(plan, first_problem(buffers));
  runtime_set(map, grid, plan.first.kernel->info.splits, 0, table);
  return table;
}

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
  if (plan.chained) start_early(calls.first, plan.early_weights);
  if (plan.mechanism != Mechanism::stream_order) start_early(calls.second, plan.early_weights);
  if (plan.mechanism == Mechanism::pdl_tiles) wait_by_tiles(plan, buffers, calls);
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
