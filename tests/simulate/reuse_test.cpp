// SPDX-License-Identifier: Apache-2.0
// Reads from DRAM between the two limits: an L2 that holds everything, and none.
#include "simulate/reuse.hpp"

#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::make_gemm;
using testing::DoubleNear;
using testing::ElementsAre;

constexpr double k_none = 0;
constexpr double k_all = 1e18;

// 8 x 4 tiles; A has 4 row panels of 1 MiB, B 8 column panels of 1 MiB.
Stage gemm(int splits = 1) { return make_gemm("c", {512, 1024, 4096}, {128, 128, 32, 4, splits}, "x", "w"); }

std::vector<double> mib(std::vector<double> bytes) {
  for (auto& b : bytes) b /= 1024 * 1024;
  return bytes;
}

TEST(Reuse, AnL2ThatHoldsEverythingReadsOnce) {
  for (int const splits : {1, 2, 3})
    for (std::int64_t const wave : {1, 5, 32, 1000})
      EXPECT_THAT(mib(simulation::dram_reads(gemm(splits), {}, k_all, wave)), ElementsAre(4, 8))
          << splits << ' ' << wave;
}

TEST(Reuse, WithoutL2EveryBlockReadsItsOwn) {
  for (int const splits : {1, 2, 4})
    for (std::int64_t const wave : {1, 5, 32, 1000})
      EXPECT_THAT(mib(simulation::dram_reads(gemm(splits), {}, k_none, wave)), ElementsAre(32, 32))
          << splits << ' ' << wave;
}

TEST(Reuse, WhatAWaveSharesIsReadOncePerWave) {
  // 0.5 MiB holds the four slices of 32 that a wave of eight blocks has in flight (4 of 128 of 9 MiB), and
  // next to nothing of the 9.25 MiB between two waves. A wave is one row of tiles: one panel of A, all of B.
  double const l2 = 0.5 * 1024 * 1024;
  double const again = 1 - 0.5 / 9.25;
  EXPECT_THAT(mib(simulation::dram_reads(gemm(), {}, l2, 8)),
              ElementsAre(4, DoubleNear(8 + (32 - 8) * again, 1e-9)));
  // A wave of everything shares everything.
  EXPECT_THAT(mib(simulation::dram_reads(gemm(), {}, l2, 32)), ElementsAre(4, 8));
}

TEST(Reuse, TheOrderOfTilesDecides) {
  // Column by column, a wave of eight blocks is two columns: all of A, two panels of B.
  StagePlan columns;
  for (int x = 0; x < 8; ++x)
    for (int y = 0; y < 4; ++y) columns.order.table.push_back(y * 8 + x);
  double const l2 = 0.5 * 1024 * 1024;
  double const again = 1 - 0.5 / 6.25;
  EXPECT_THAT(mib(simulation::dram_reads(gemm(), columns, l2, 8)),
              ElementsAre(DoubleNear(4 + (16 - 4) * again, 1e-9), 8));
}

TEST(Reuse, ALargerL2NeverReadsMore) {
  for (int const splits : {1, 3})
    for (std::int64_t const wave : {1, 7, 40}) {
      std::vector<double> last{1e18, 1e18};
      for (double l2 = 1024; l2 < 64e6; l2 *= 1.5) {
        auto const reads = simulation::dram_reads(gemm(splits), {}, l2, wave);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_LE(reads[i], last[i] * (1 + 1e-12));
          EXPECT_GE(reads[i], gemm().operands[i].unique_bytes * (1 - 1e-12));
        }
        last = reads;
      }
    }
}

TEST(Reuse, TheTimelineCountsTheBytes) {
  auto machine = support::ideal_machine(8);
  machine.dram_gbps = 1000;
  Pipeline p;
  p.name = "one";
  p.stages = {gemm()};
  p.stages[0].resources = {1024, 32, 0};
  auto const plan = support::make_plan(p, machine, Mechanism::stream_order);
  auto const stored = p.stages[0].store_bytes_per_block * 32;
  machine.l2_mib = 1e6;
  auto const once = simulate(plan, machine).value();
  EXPECT_NEAR(once.dram_bytes, 12 * 1024 * 1024 + stored, 1);
  machine.l2_mib = 0;
  auto const always = simulate(plan, machine).value();
  EXPECT_NEAR(always.dram_bytes, 64 * 1024 * 1024 + stored, 1);
  EXPECT_GT(always.end, once.end);
}

}  // namespace
}  // namespace tessera
