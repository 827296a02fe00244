// SPDX-License-Identifier: Apache-2.0
// Price of one candidate plan: two GEMMs of about 3000 blocks under every mechanism, totals only.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

using namespace tessera;

Plan candidate(MachineProfile const& profile, Mechanism mechanism, support::Policy policy) {
  support::GemmTile const tile{128, 128, 64, 4, 1, {256, 128, 98304}};
  // 21 rows of 48 and of 96 tiles.
  return support::make_plan(support::make_gemm_pair({2688, 12288, 6144}, tile, tile), profile, mechanism,
                            policy, {.reorder_loads = true});
}

void simulate_candidate(benchmark::State& state, Mechanism mechanism, support::Policy policy) {
  auto const profile = machine("h200");
  if (!profile) throw std::runtime_error(to_text(profile.error()));
  auto const plan = candidate(*profile, mechanism, policy);
  std::int64_t blocks = 0;
  for (auto const& stage : plan.pipeline.stages) blocks += stage.blocks();
  double end = 0;
  for (auto _ : state)
    end = static_cast<double>(simulate(plan, *profile, {.record_tiles = false}).value().end);
  state.counters["blocks"] = static_cast<double>(blocks);
  state.counters["simulated_us"] = end / 1e6;
}

using support::Policy;
BENCHMARK_CAPTURE(simulate_candidate, stream_order, Mechanism::stream_order, Policy::tile_sync)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate_candidate, pdl, Mechanism::pdl, Policy::tile_sync)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate_candidate, wait_kernel_tiles, Mechanism::wait_kernel, Policy::tile_sync)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate_candidate, wait_kernel_rows, Mechanism::wait_kernel, Policy::row_sync)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate_candidate, pdl_rows, Mechanism::pdl_tiles, Policy::row_sync)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate_candidate, fused_tiles, Mechanism::fused, Policy::tile_sync)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
