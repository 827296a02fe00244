// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/cusync_study.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulate/cusync_steps.hpp"
#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

// GPT-3's MLP cut eight ways: X[tokens, 12288] W1[12288, 6144] W2[6144, 12288] (Jangda et al., A Framework
// for Fine-Grained Synchronization of Dependent GPU Kernels, CGO 2024, section V).
constexpr std::int64_t k_hidden = 12288;
constexpr std::int64_t k_inner = 6144;

// Table IV: grids and times; tile shapes follow from the grids. Two blocks share an SM up to 256 tokens
// (Table I).
struct PrintedRow {
  std::int64_t tokens;
  int tile_m, tile_n, splits1, splits2;
  bool two_per_sm;
  double stream_us, best_us;
};
constexpr PrintedRow k_rows[] = {
    {64, 64, 256, 4, 3, true, 378, 355},       {128, 128, 256, 3, 3, true, 530, 523},
    {256, 256, 128, 4, 2, true, 862, 728},     {512, 256, 256, 2, 1, false, 1500, 1196},
    {1024, 256, 256, 2, 1, false, 2111, 1901}, {2048, 256, 256, 1, 1, false, 3730, 3574}};
constexpr double k_table_five[] = {378, 365, 360, 355};
constexpr int k_slice = 32;

Expected<CheckedPipeline> mlp(PrintedRow const& row) {
  PipelineBuilder p("mlp");
  auto [x, y] = p.dims("x", "y");
  auto const rows = (row.tokens + row.tile_m - 1) / row.tile_m;
  auto const loaded = static_cast<double>(std::min<std::int64_t>(row.tile_m, row.tokens));
  auto const gemm = [&](char const* name, std::int64_t n, std::int64_t k, int splits, char const* weights,
                        char const* input) {
    auto stage = p.stage(name, {x = n / row.tile_n, y = rows});
    auto const depth = static_cast<double>(k) / splits;
    stage.splits(splits)
        .resources({256, 128, row.two_per_sm ? 40960 : 65536})
        .reads("b", weights, 2 * row.tile_n * depth, 2.0 * static_cast<double>(n * k))
        .cost({2.0 * row.tile_m * row.tile_n * depth, 2 * loaded * row.tile_n,
               static_cast<int>(std::ceil(depth / k_slice)), 2});
    stage.reads("a", input, 2 * loaded * depth, 2.0 * static_cast<double>(row.tokens * k));
    return stage;
  };
  auto gemm1 = gemm("gemm1", k_inner, k_hidden, row.splits1, "w1", "x");
  auto gemm2 = gemm("gemm2", k_hidden, k_inner, row.splits2, "w2", "gemm1");
  p.depends(gemm2(x, y), gemm1(all(x), y)).through("a");
  return check(p);
}

/// Some SM computes at least a whole number of blocks; together, of what both depths of a block divide by.
void set_least(CusyncRow& row, PrintedRow const& printed, MachineProfile const& machine) {
  auto const depth1 = k_hidden / printed.splits1, depth2 = k_inner / printed.splits2;
  auto const blocks1 = row.grid1[0] * row.grid1[1] * row.grid1[2];
  auto const blocks2 = row.grid2[0] * row.grid2[1] * row.grid2[2];
  auto const busiest = [&](std::int64_t blocks) { return (blocks + machine.sms - 1) / machine.sms; };
  auto const microseconds = [&](std::int64_t depth) {
    return 2e-3 * printed.tile_m * printed.tile_n * static_cast<double>(depth) /
           (machine.clock_ghz * machine.matrix_flops_per_clock_per_sm);
  };
  row.least_stream = microseconds(busiest(blocks1) * depth1 + busiest(blocks2) * depth2);
  auto const unit = std::gcd(depth1, depth2);
  row.least = microseconds(busiest(blocks1 * (depth1 / unit) + blocks2 * (depth2 / unit)) * unit);
}

}  // namespace

Expected<CusyncStudy> study_cusync(MachineProfile const& machine) {
  CusyncStudy study;
  study.machine = machine;
  study.peak_tflops = machine.sms * machine.clock_ghz * machine.matrix_flops_per_clock_per_sm * 1e-3;
  for (auto const& printed : k_rows) {
    auto const checked = mlp(printed);
    if (!checked) return tl::make_unexpected(checked.error());
    CusyncRow row;
    row.tokens = printed.tokens;
    auto const rows = (printed.tokens + printed.tile_m - 1) / printed.tile_m;
    row.grid1 = {rows, k_inner / printed.tile_n, printed.splits1};
    row.grid2 = {rows, k_hidden / printed.tile_n, printed.splits2};
    set_least(row, printed, machine);
    row.paper_stream = printed.stream_us;
    row.paper_best = printed.best_us;
    row.paper_tflops = 4e-6 * static_cast<double>(printed.tokens * k_hidden * k_inner) / printed.stream_us;
    auto const stream = build_plan(*checked, machine, Recipe{});
    if (!stream) return tl::make_unexpected(stream.error());
    row.waves1 = stream->stages[0].waves;
    row.waves2 = stream->stages[1].waves;
    auto const in_order = simulated_us(*checked, machine, Recipe{});
    if (!in_order) return tl::make_unexpected(in_order.error());
    row.stream = *in_order;
    row.tile_sync = row.row_sync = row.stream * 1e3;
    for (auto const& policy : generate_policies(stream->pipeline, 0))
      for (int number = 0; number < 4; ++number) {
        bool const tile = policy.name == "TileSync";
        if (!tile && policy.name != "RowSync") continue;
        auto const time = simulated_us(*checked, machine, cusync_step(number, {policy}));
        if (!time) return tl::make_unexpected(time.error());
        auto& least = tile ? row.tile_sync : row.row_sync;
        least = std::min(least, *time);
        if (tile && study.rows.empty())
          study.steps.push_back({k_cusync_steps[number], k_table_five[number], *time});
      }
    study.rows.push_back(row);
  }
  auto convolutions = study_cusync_convolutions(machine);
  if (!convolutions) return tl::make_unexpected(convolutions.error());
  study.convolutions = std::move(*convolutions);
  return study;
}

}  // namespace tessera
