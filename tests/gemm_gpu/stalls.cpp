// SPDX-License-Identifier: Apache-2.0
// Waits that can never be met end, with a record that names tile and semaphore, and leave
// a GPU that works.
#include <chrono>
#include <cmath>

#include "workbench.hpp"

namespace tessera::gemm_test {
namespace {

/// Of one row of tiles, and of all: each tile has its own, or a row shares one.
long long semaphores_of_row(Call const& call) {
  return call.stage.post.scale[0] == 0 ? 1 : call.stage.grid.extent[0];
}
long long semaphores_of(Call const& call) { return semaphores_of_row(call) * call.stage.grid.extent[1]; }

// What happens when the consumer runs after `start` has launched too little.
template <class Start>
int stall_once(char const* title, Workbench const& bench, PairPlan const& plan, long long row_below,
               Start const& start, cudaStream_t stream) {
  using clock = std::chrono::steady_clock;
  bench.reset();
  auto const began = clock::now();
  auto const calls = calls_of(plan, bench.buffers());
  start(calls);
  CHECK(plan.second.kernel->launch(calls.second, stream));
  CHECK(cudaStreamSynchronize(stream));
  double const seconds = std::chrono::duration<double>(clock::now() - began).count();
  StallRecord const record = bench.stall();
  // The record's semaphore is one of a row that was not posted.
  bool const named = record.state != 0 && record.stage == 1 && record.semaphore >= row_below &&
                     record.semaphore < semaphores_of(calls.first) && record.seen < record.expected;
  double const after = bench.run(plan, 2, stream);
  bool const ok = named && seconds < 60 && after <= allowed;
  std::printf(
      "%s %s: after %.2f s stage %lld, tile %lld waits for semaphore %lld: %u of %u; then a pair with error "
      "%.2e\n",
      ok ? "explained" : "FAILED", title, seconds, static_cast<long long>(record.stage), record.tile,
      record.semaphore, record.seen, record.expected, after);
  return ok ? 0 : 1;
}

}  // namespace

int test_stalls(cudaStream_t stream) {
  Workbench bench(1544, 2056, 500);
  int failures = 0;
  struct {
    mlp::Form form;
    char const* first;
    char const* second;
  } const kinds[] = {
      {mlp::Form::gelu, "128x256x64_2x1", "128x128x64_2x1"},
      {mlp::Form::gelu, "112x192x64_2x1_swapped", "96x192x64_2x1_swapped"},
      {mlp::Form::gelu, "80x192x64_2x1_swapped_split2", "80x192x64_2x1_swapped_split2"},
      {mlp::Form::swiglu, "128x256x64_2x1_gated", "128x128x64_2x1"},
  };
  for (auto const& kind : kinds)
    for (int const columns : {1, whole_row}) {
      bench.fill(kind.form, ElementType::bf16, 500, 5, stream);
      PairPlan const plan{
          {find_kernel(kind.first), 1}, {find_kernel(kind.second), 1}, Mechanism::pdl_tiles, columns, true};
      CHECK(prepare(*plan.first.kernel));
      CHECK(prepare(*plan.second.kernel));
      failures += stall_once(
          "no producer", bench, plan, 0, [](PairCalls const&) {}, stream);
      auto const calls = calls_of(plan, bench.buffers());
      long long const last_row = semaphores_of(calls.first) - semaphores_of_row(calls.first);
      failures += stall_once(
          "last row not posted", bench, plan, last_row,
          [&](PairCalls const& whole) {
            Call less = whole.first;
            --less.stage.grid.extent[1];  // tiles outside are not posted
            CHECK(plan.first.kernel->launch(less, stream));
          },
          stream);
    }
  return failures;
}

}  // namespace tessera::gemm_test
