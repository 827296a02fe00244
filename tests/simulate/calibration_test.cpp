// SPDX-License-Identifier: Apache-2.0
// The paper's V100 figures (cuSync, Tables IV and V) from the shipped profile: no constant depends on the
// row.
#include <gmock/gmock.h>

#include <algorithm>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::GemmTile;
using support::Switches;

struct Row {
  std::int64_t tokens;
  GemmTile first, second;
  double stream_us, best_us;
};

// Grids and splits as printed; resources for the two blocks per SM of Table I.
constexpr Resources k_small{256, 128, 40960};
constexpr Resources k_large{256, 128, 49152};
Row const k_rows[] = {{64, {64, 256, 32, 2, 4, k_small}, {64, 256, 32, 2, 3, k_small}, 378, 355},
                      {128, {128, 256, 32, 2, 3, k_large}, {128, 256, 32, 2, 3, k_large}, 530, 523},
                      {256, {256, 128, 32, 2, 4, k_large}, {256, 128, 32, 2, 2, k_large}, 862, 728}};

double simulated(Row const& row, MachineProfile const& machine, Mechanism mechanism, Switches switches = {}) {
  auto const p = support::make_gemm_pair({row.tokens, 12288, 6144}, row.first, row.second);
  auto const t = simulate(support::make_plan(p, machine, mechanism, support::Policy::tile_sync, switches),
                          machine, {false});
  return t ? static_cast<double>(t->end) / 1e6 : -1;
}

constexpr Switches k_table_five[] = {{}, {true, false, false}, {true, true, false}, {true, true, true}};

TEST(Calibration, StreamOrderAndBestPolicyWithinTenPercentOfTheV100Rows) {
  auto const machine = tessera::machine("v100").value();
  for (auto const& row : k_rows) {
    auto const stream = simulated(row, machine, Mechanism::stream_order);
    EXPECT_NEAR(stream, row.stream_us, 0.1 * row.stream_us) << row.tokens;
    double best = stream;
    for (auto const& switches : k_table_five)
      best = std::min(best, simulated(row, machine, Mechanism::wait_kernel, switches));
    EXPECT_NEAR(best, row.best_us, 0.1 * row.best_us) << row.tokens;
    EXPECT_LT(best, stream) << row.tokens;
  }
}

TEST(Calibration, TableFiveKeepsItsOrder) {
  auto const machine = tessera::machine("v100").value();
  std::vector<double> times;
  for (auto const& switches : k_table_five)
    times.push_back(simulated(k_rows[0], machine, Mechanism::wait_kernel, switches));
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LT(times[i], times[i - 1]) << "step " << i;
}

TEST(Calibration, H200StreamOrderIsSane) {
  auto const machine = tessera::machine("h200").value();
  struct {
    std::int64_t tokens;
    double us;
  } const rows[] = {
      {512, 242.8}, {1024, 478.4}, {2048, 936.9}};  // measured, best CUTLASS pair in stream order
  for (auto const& [tokens, us] : rows) {
    double best = 1e9;
    for (int const first : {1, 2, 3})
      for (int const second : {1, 2}) {
        Resources const resources{384, 168, 197632};
        auto const p = support::make_gemm_pair({tokens, 12288, 6144}, {128, 256, 64, 4, first, resources},
                                               {128, 256, 64, 4, second, resources});
        auto const t = simulate(support::make_plan(p, machine, Mechanism::stream_order), machine, {false});
        ASSERT_TRUE(t.has_value());
        best = std::min(best, static_cast<double>(t->end) / 1e6);
      }
    EXPECT_NEAR(best, us, 0.15 * us) << tokens;
  }
}

}  // namespace
}  // namespace tessera
