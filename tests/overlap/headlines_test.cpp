// SPDX-License-Identifier: Apache-2.0
// Verdicts: within the tolerance is not enough.
#include "tessera/overlap/headlines.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/study.hpp"

namespace tessera {
namespace {

TEST(Headline, CountsOnlyIfTheMechanismDidIt) {
  Headline row{"T3-MCA", 1.31, 1.30, 1.235, 1.365, {{"no arbitration", 1.20, "at most 1.248", true}}};
  EXPECT_EQ(row.verdict(), Reproduction::reproduced);
  row.controls.push_back({"no overlap", 1.31, "at most 1.0", false});
  EXPECT_EQ(row.verdict(), Reproduction::by_other_means);
  row.value = 1.4;
  EXPECT_EQ(row.verdict(), Reproduction::missed) << "whatever the controls say";
  row.paper = 0;
  EXPECT_EQ(row.verdict(), Reproduction::not_comparable);
  EXPECT_STREQ(to_text(Reproduction::by_other_means), "by other means");
}

/// A study of one of the paper's cases, made up: T3, T3-MCA and compute first end when the test says.
OverlapStudy made_up(std::int64_t t3, std::int64_t mca, std::int64_t compute_first) {
  OverlapStudy study;
  study.machine = machine("t3").value();
  study.models = t3_models();
  SubLayerRuns runs;
  runs.model = "T-NLG";
  runs.tensor_parallel = 16;
  runs.layer = SubLayer::fc1;
  runs.problem = {8192, 4256, 1064, false};
  runs.gemm.end = 1000;
  runs.collectives.reduce_scatter.end = 1000;
  runs.collectives.all_gather.end = 1000;
  runs.t3.end = t3;
  runs.t3_mca.end = mca;
  for (auto* run : {&runs.gemm, &runs.t3, &runs.t3_mca, &runs.collectives.reduce_scatter})
    run->bytes.fill(1e6);
  study.sub_layers = {runs};
  study.controls = {{compute_first, {}, 1e6, 500, 500}};
  return study;
}

Reproduction verdict_of(OverlapStudy const& study, std::string const& name) {
  for (auto const& row : headlines(study))
    if (row.name == name) return row.verdict();
  ADD_FAILURE() << "no row " << name;
  return Reproduction::not_comparable;
}

TEST(Headline, ArbitrationIsCreditedOnlyIfItDoesSomething) {
  // Sequential 3000. T3 3000 / 2500 = 1.20, T3-MCA 3000 / 2300 = 1.30: as in the paper.
  EXPECT_EQ(verdict_of(made_up(1500, 1300, 1480), "T3-MCA, geometric mean"), Reproduction::reproduced);
  EXPECT_EQ(verdict_of(made_up(1500, 1300, 1480), "T3-MCA over T3, mean (1.08 or 1.13)"),
            Reproduction::reproduced);
  // The same T3-MCA, and T3 as fast.
  EXPECT_EQ(verdict_of(made_up(1310, 1300, 1305), "T3-MCA, geometric mean"), Reproduction::by_other_means);
  EXPECT_EQ(verdict_of(made_up(1310, 1300, 1305), "T3-MCA over T3, mean (1.08 or 1.13)"),
            Reproduction::missed);
  // Priority alone does what the threshold is credited with.
  EXPECT_EQ(verdict_of(made_up(1500, 1300, 1310), "T3-MCA over T3, mean (1.08 or 1.13)"),
            Reproduction::by_other_means);
}

TEST(Headline, WhatLosesIsShownAsMissed) {
  auto study = made_up(1500, 1300, 1480);
  auto few = study.sub_layers.front();
  few.tensor_parallel = 8;
  study.sub_layers.push_back(few);
  study.controls.push_back(study.controls.front());
  for (auto& runs : study.sub_layers) runs.collectives.reduce_scatter_near_memory.end = 1100;
  EXPECT_EQ(verdict_of(study, "RS near memory, 8 GPUs, % faster"), Reproduction::missed);
}

TEST(Headline, EveryRowThatIsComparedIsHeldToSomething) {
  for (auto const& row : headlines(made_up(1500, 1300, 1480)))
    if (row.verdict() != Reproduction::not_comparable) {
      EXPECT_FALSE(row.controls.empty()) << row.name;
      EXPECT_LE(row.least, row.paper) << row.name;
      EXPECT_GE(row.most, row.paper) << row.name;
    }
}

TEST(Headline, OtherModelsAreNotCompared) {
  auto study = made_up(1500, 1300, 1480);
  study.models.pop_back();
  for (auto const& row : headlines(study)) EXPECT_EQ(row.verdict(), Reproduction::not_comparable) << row.name;
}

}  // namespace
}  // namespace tessera
