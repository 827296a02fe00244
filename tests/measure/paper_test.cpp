// SPDX-License-Identifier: Apache-2.0
// The figures of Zhang et al. (IPDPS 2020) in the profiles of V100 and P100 are those of its tables.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

/// The value of that figure under exactly these conditions; -1 if there is none, -2 if there are several.
double value(Probe const& probe, std::string const& id, std::map<std::string, double> const& at = {}) {
  double found = -1;
  for (auto const& figure : probe.figures)
    if (figure.id == id && figure.at == at) found = found == -1 ? figure.median : -2;
  return found;
}

Probe paper(std::string const& name) { return machine(name).value().probe.value(); }

struct Row {
  char const* id;
  std::map<std::string, double> at;
  double v100, p100;
};

TEST(Paper, TablesOfBothGpus) {
  Row const rows[] = {
      // Table 2.
      {"warp.sync.tile", {{"threads", 32}}, 14, 1},
      {"warp.sync.tile.throughput", {{"threads", 32}}, 0.812, 1.774},
      {"warp.shuffle.tile", {{"threads", 32}}, 22, 31},
      {"warp.shuffle.tile.throughput", {{"threads", 32}}, 0.928, 0.642},
      {"warp.sync.coalesced", {{"threads", 31}}, 108, 1},
      {"warp.sync.coalesced.throughput", {{"threads", 31}}, 0.167, 1.791},
      {"warp.sync.coalesced", {{"threads", 32}}, 14, 1},
      {"warp.sync.coalesced.throughput", {{"threads", 32}}, 1.306, 1.821},
      {"warp.shuffle.coalesced", {{"threads", 32}}, 77, 50},
      {"warp.shuffle.coalesced.throughput", {{"threads", 32}}, 0.121, 0.166},
      {"block.syncthreads", {{"threads", 32}}, 22, 218},
      {"block.syncthreads.throughput", {{"threads", 32}}, 0.475, 0.091},
      // Table 3.
      {"switch.thread_to_warp.few.throughput", {}, 0.62, 0.43},
      {"switch.thread_to_warp.many.throughput", {}, 19.6, 13.8},
      {"switch.warp_to_block.few.latency", {}, 13, 18.5},
      {"switch.warp_to_block.many.throughput", {}, 215, 141},
      {"switch.warp_to_block.many.concurrency", {}, 2796, 2615},
      // Table 4.
      {"switch.thread_to_warp.sync", {}, 110, 155},
      {"switch.thread_to_warp.predicted", {}, 70, 70},
      {"switch.warp_to_block.sync", {}, 420, 2135},
      {"switch.warp_to_block.predicted", {}, 9076, 32681},
      // Table 5.
      {"reduce.warp.serial", {{"elements", 32}}, 299, 383},
      {"reduce.warp.no_sync", {{"elements", 32}}, 89, 112},
      {"reduce.warp.tile", {{"elements", 32}}, 237, 281},
      {"reduce.warp.coalesced", {{"elements", 32}}, 237, 251},
      {"reduce.warp.tile_shuffle", {{"elements", 32}}, 164, 212},
      {"reduce.warp.coalesced_shuffle", {{"elements", 32}}, 1261, 1423},
      // Table 6.
      {"reduce.device.two_launches", {{"large_input", 1}}, 865.40, 592.40},
      {"reduce.device.grid_sync", {{"large_input", 1}}, 855.59, 590.85},
      {"reduce.device.cub", {{"large_input", 1}}, 849.39, 543.96},
      {"reduce.device.cuda_sample", {{"large_input", 1}}, 852.98, 590.65},
      {"reduce.device.theory", {{"large_input", 1}}, 898.05, 732.16},
      // Section 9.4.
      {"check.add.chain", {}, 4, 6},
      {"check.add.host", {}, 4, 6},
  };
  auto const v100 = paper("v100"), p100 = paper("p100");
  for (auto const& row : rows) {
    EXPECT_EQ(value(v100, row.id, row.at), row.v100) << row.id;
    EXPECT_EQ(value(p100, row.id, row.at), row.p100) << row.id;
  }
}

TEST(Paper, LaunchesWereMeasuredOnV100Alone) {
  auto const v100 = paper("v100");
  EXPECT_EQ(value(v100, "kernel.launch"), 1081);
  EXPECT_EQ(value(v100, "kernel.launch.cooperative", {{"unit_ns", 10000}}), 1063);
  EXPECT_EQ(value(v100, "kernel.launch.cooperative_multi_device", {{"unit_ns", 10000}}), 1258);
  EXPECT_EQ(value(v100, "kernel.null.ordinary"), 8888);
  EXPECT_EQ(value(v100, "kernel.null.cooperative"), 10248);
  EXPECT_EQ(value(v100, "kernel.null.cooperative_multi_device"), 10874);
  for (auto const& figure : paper("p100").figures) EXPECT_NE(figure.id.substr(0, 7), "kernel.") << figure.id;
}

// The paper's own prediction follows from its own figures by Eq. 5, to the digits it gives.
TEST(Paper, PredictedSwitchPointsFollowFromTheTables) {
  for (std::string const name : {"v100", "p100"}) {
    auto const probe = paper(name);
    for (std::string const step : {"switch.thread_to_warp.", "switch.warp_to_block."}) {
      double const few = value(probe, step + "few.throughput"), many = value(probe, step + "many.throughput");
      double const predicted = value(probe, step + "sync") * many * few / (many - few);
      EXPECT_NEAR(predicted / value(probe, step + "predicted"), 1, 0.03) << name << " " << step;
    }
  }
}

TEST(Paper, EveryFigureNamesItsPlaceAndNoneSaysMoreThanThePaper) {
  using testing::AnyOf;
  using testing::StartsWith;
  for (std::string const name : {"v100", "p100"}) {
    EXPECT_TRUE(machine(name).value().provisional);
    auto const probe = paper(name);
    EXPECT_THAT(probe.identity.gpu, testing::HasSubstr("Zhang et al."));
    for (auto const& figure : probe.figures) {
      EXPECT_THAT(figure.valid, AnyOf(StartsWith("Table "), StartsWith("section "))) << figure.id;
      EXPECT_EQ(figure.samples, 0) << figure.id;
      EXPECT_EQ(figure.deviation, 0) << figure.id;
      EXPECT_FALSE(figure.verified) << figure.id;
    }
    for (auto const& verdict : probe.verdicts) EXPECT_THAT(verdict.note, StartsWith("section 8."));
  }
  EXPECT_EQ(paper("v100").verdicts.front().answer, "held");
  EXPECT_EQ(paper("p100").verdicts.front().answer, "did not hold");
}

}  // namespace
}  // namespace tessera
