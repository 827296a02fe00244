// SPDX-License-Identifier: Apache-2.0
// A recorded run: the same numbers as without, times that fit each other, and figure 17's shape.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "overlap/limits.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer_timeline.hpp"
#include "tessera/timeline_json.hpp"

namespace tessera {
namespace {

/// 64 tiles on 16 SMs: four stages of the GEMM.
struct Small {
  MachineProfile machine = tessera::machine("t3").value();
  TransformerModel model{"small", 1024, 1, 2048, 1, {4}};
  int gpus = 4;
  SubLayerOptions options;
  Small() {
    machine.sms = 16;
    options.kernel = default_gemm_kernel(machine);
  }
  Timeline timeline(SubLayerRun run) const {
    auto timeline = sub_layer_timeline(machine, model, gpus, SubLayer::fc2, run, options);
    EXPECT_TRUE(timeline.has_value()) << to_text(timeline.error());
    return timeline.value_or(Timeline{});
  }
  SubLayerRuns runs() const {
    auto const collectives = run_collectives(machine, model, gpus, options).value();
    return run_sub_layer(machine, model, gpus, SubLayer::fc2, options, collectives).value();
  }
  double output() const { return static_cast<double>(model.tokens() * model.hidden * 2); }
};

double sum(Timeline const& timeline, std::size_t of_class) {
  auto const& counter = timeline.counters.front();
  double bytes = 0;
  for (auto i = of_class; i < counter.bytes.size(); i += counter.classes.size())
    bytes += static_cast<double>(counter.bytes[i]);
  return bytes;
}

TEST(OverlapTimeline, RecordingChangesNoNumber) {
  Small const small;
  auto const runs = small.runs();
  EXPECT_EQ(small.timeline(SubLayerRun::gemm).end, runs.gemm.end);
  EXPECT_EQ(small.timeline(SubLayerRun::t3).end, runs.t3.end);
  EXPECT_EQ(small.timeline(SubLayerRun::t3_mca).end, runs.t3_mca.end);
  EXPECT_EQ(small.timeline(SubLayerRun::reduce_scatter).end, runs.collectives.reduce_scatter.end);
  EXPECT_EQ(small.timeline(SubLayerRun::all_gather).end, runs.collectives.all_gather.end);
  EXPECT_EQ(runs.t3.timeline, Timeline{}) << "nobody asked for it";
}

TEST(OverlapTimeline, AnOptionRecordsAnyRunAndNothingElseOfItsResult) {
  Small const small;
  CollectiveProblem const problem{Collective::reduce_scatter, 4, 4e6};
  OverlapOptions options;
  auto const plain = run_collective(small.machine, problem, options).value();
  options.record = true;
  auto recorded = run_collective(small.machine, problem, options).value();
  EXPECT_FALSE(recorded.timeline.tiles.empty());
  recorded.timeline = {};
  EXPECT_EQ(recorded, plain);
}

TEST(OverlapTimeline, IsConsistentAndSurvivesItsFile) {
  Small const small;
  for (auto const run : k_sub_layer_runs) {
    auto const timeline = small.timeline(run);
    auto const read = parse_timeline(print_timeline(timeline), "run.json");
    ASSERT_TRUE(read.has_value()) << to_text(run) << ": " << to_text(read.error());
    EXPECT_EQ(*read, timeline) << to_text(run);
  }
}

TEST(OverlapTimeline, EveryTileIsABlockAndItsPartsAddUp) {
  Small const small;
  for (int const groups : {1, 2}) {
    auto two = small;
    two.options.kernel.groups_per_sm = groups;
    for (auto const run : {SubLayerRun::gemm, SubLayerRun::t3, SubLayerRun::t3_mca}) {
      auto const timeline = two.timeline(run);
      ASSERT_EQ(timeline.tiles.size(), 64U);
      EXPECT_EQ(timeline.slots_per_sm, groups);
      // Two groups of an SM take tiles when they can, not in turn.
      EXPECT_EQ(timeline.waves, groups == 1 ? 4 : 3);
      // 1024 * 4 / 4 / 32 slices of 256 x 128 x 32.
      auto const slice = std::llround(2.0 * 256 * 128 * 32 / small.machine.matrix_flops_per_ns() * 1000);
      std::map<std::int64_t, int> seen;
      for (auto const& tile : timeline.tiles) {
        ++seen[tile.tile];
        EXPECT_EQ(tile.causes.operands + tile.causes.matrix_unit, tile.waiting);
        EXPECT_EQ(tile.loaded - tile.started, 500'000 + tile.waiting + 32 * slice)
            << "set-up, waits, 32 slices";
        EXPECT_GE(tile.posted - tile.loaded, tile.causes.stores);
        if (groups == 1) {
          EXPECT_EQ(tile.causes.matrix_unit, 0) << "it has the SM for itself";
        }
      }
      EXPECT_EQ(seen.size(), 64U);
      auto const waits_for_unit = std::any_of(timeline.tiles.begin(), timeline.tiles.end(),
                                              [](auto const& tile) { return tile.causes.matrix_unit > 0; });
      EXPECT_EQ(waits_for_unit, groups == 2);
      EXPECT_GT(timeline.busy, 0.5);
      EXPECT_LE(timeline.busy, 1);
    }
  }
}

TEST(OverlapTimeline, StoresWaitWhereMemoryIsSlow) {
  auto small = Small();
  auto const waited = [](Timeline const& timeline) {
    std::int64_t stores = 0;
    for (auto const& tile : timeline.tiles) stores += tile.causes.stores;
    return stores;
  };
  auto const before = waited(small.timeline(SubLayerRun::t3));
  small.machine.overlap->dram_clock_ghz /= 4;
  EXPECT_GT(waited(small.timeline(SubLayerRun::t3)), 2 * before);
}

TEST(OverlapTimeline, TracksCarryTheCollective) {
  Small const small;
  auto const timeline = small.timeline(SubLayerRun::t3);
  std::map<std::string, double> bytes;
  std::map<std::string, std::vector<std::int64_t>> chunks;
  for (auto const& span : timeline.spans) {
    auto const& name = timeline.tracks[static_cast<std::size_t>(span.track)].name;
    auto const kind = name.substr(0, 4);
    bytes[kind] += static_cast<double>(span.bytes);
    if (chunks[kind].empty() || chunks[kind].back() != span.item) chunks[kind].push_back(span.item);
  }
  auto const chunk = small.output() / small.gpus;
  EXPECT_NEAR(bytes["link"], 3 * chunk, 1) << "all but the chunk that stays";
  EXPECT_NEAR(bytes["copy"], 2 * chunk, 1) << "all but the first, which is stored to the peer";
  EXPECT_THAT(chunks["link"], testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(timeline.tracks.back().name, "link to GPU 3");

  auto const alone = small.timeline(SubLayerRun::gemm);
  EXPECT_TRUE(alone.tracks.empty());
  EXPECT_TRUE(alone.spans.empty());
}

TEST(OverlapTimeline, CollectivesSendTheirChunksInTurn) {
  Small const small;
  for (auto const run : {SubLayerRun::reduce_scatter, SubLayerRun::all_gather}) {
    auto const timeline = small.timeline(run);
    std::vector<std::int64_t> chunks;
    for (auto const& span : timeline.spans)
      if (chunks.empty() || chunks.back() != span.item) chunks.push_back(span.item);
    EXPECT_THAT(chunks, testing::ElementsAre(0, 1, 2)) << to_text(run);
    auto const& stage = timeline.stages.front();
    EXPECT_EQ(stage.name, to_text(run));
    EXPECT_EQ(static_cast<std::int64_t>(timeline.tiles.size()), stage.tiles);
    EXPECT_EQ(stage.extent.back(), run == SubLayerRun::all_gather ? 3 : 4) << "steps";
  }
}

TEST(OverlapTimeline, AGatheredGemmWaitsForItsRows) {
  Small const small;
  auto const timeline = small.timeline(SubLayerRun::gathered);
  auto const problem = gathered_gemm(sub_layer_gemm(small.model, small.gpus, SubLayer::fc2));
  auto const pipeline = gathered_pipeline(problem, small.options.kernel, small.gpus).value();
  auto const inputs = configure_gathered(pipeline, Topology::ring, Raster::row).value();
  auto const run = run_gathered_gemm(small.machine, problem, small.options.kernel, inputs).value();
  EXPECT_EQ(timeline.end, run.end);
  std::map<std::string, double> bytes;
  for (auto const& span : timeline.spans)
    bytes[timeline.tracks[static_cast<std::size_t>(span.track)].name.substr(0, 4)] +=
        static_cast<double>(span.bytes);
  EXPECT_NEAR(bytes["link"], run.link_bytes, 1);
  EXPECT_NEAR(bytes["copy"], run.link_bytes, 1) << "everything that is sent is read";
  std::int64_t last = 0;
  for (auto const& tile : timeline.tiles) last = std::max(last, tile.started);
  EXPECT_GT(static_cast<double>(last) / 1000, run.link_bytes / small.machine.overlap->link_gbps)
      << "the last rows come last, and their tiles start then";
}

TEST(OverlapTimeline, EverySplitIsABlock) {
  Small small;
  small.options.kernel.splits = 2;
  auto const blocks = small.timeline(SubLayerRun::t3).tiles.size();
  EXPECT_EQ(small.timeline(SubLayerRun::gemm).tiles.size(), blocks);
  small.options.kernel.splits = 1;
  EXPECT_EQ(small.timeline(SubLayerRun::t3).tiles.size() * 2, blocks);
}

TEST(OverlapTimeline, CountersHoldAllTraffic) {
  Small const small;
  auto const chunk = small.output() / small.gpus;
  auto const timeline = small.timeline(SubLayerRun::t3);
  ASSERT_EQ(timeline.counters.size(), 1U);
  EXPECT_EQ(timeline.counters[0].bin, 1'000'000);
  EXPECT_NEAR(sum(timeline, 1), 3 * chunk, 0.02 * chunk) << "GEMM writes";
  EXPECT_NEAR(sum(timeline, 2), 2 * chunk, 0.02 * chunk) << "collective reads";
  EXPECT_NEAR(sum(timeline, 3), 3 * chunk, 0.02 * chunk) << "collective writes";
  EXPECT_GT(sum(timeline, 0), 2048.0 * 1024 * 2) << "GEMM reads";
}

/// Figure 17: a GEMM reads while it computes and writes in bursts where its stages end.
TEST(OverlapTimeline, ReadsComeInPhasesAndWritesInBursts) {
  Small const small;
  for (auto const run : {SubLayerRun::t3, SubLayerRun::t3_mca}) {
    auto const timeline = small.timeline(run);
    auto const& counter = timeline.counters.front();
    auto const classes = counter.classes.size();
    auto const bins = counter.bytes.size() / classes;
    // Bins in which some block stores.
    std::vector<char> storing(bins, 0);
    for (auto const& tile : timeline.tiles)
      for (auto b = tile.loaded / counter.bin; b <= tile.posted / counter.bin; ++b)
        if (static_cast<std::size_t>(b) < bins) storing[static_cast<std::size_t>(b)] = 1;
    double written = 0, in_bursts = 0, read_between = 0;
    std::size_t burst_bins = 0;
    for (std::size_t b = 0; b < bins; ++b) {
      written += static_cast<double>(counter.bytes[b * classes + 1]);
      burst_bins += storing[b] != 0;
      if (storing[b] != 0)
        in_bursts += static_cast<double>(counter.bytes[b * classes + 1]);
      else
        read_between += static_cast<double>(counter.bytes[b * classes]);
    }
    auto const share = static_cast<double>(burst_bins) / static_cast<double>(bins);
    EXPECT_LT(share, 0.25) << to_text(run) << ": stages end in a small part of the time";
    EXPECT_GT(in_bursts / written, 0.9) << to_text(run) << ": and nearly all writes are there";
    EXPECT_GT(read_between / sum(timeline, 0), 0.6) << to_text(run) << ": reads are between them";
  }
}

TEST(OverlapTimeline, OfAllGpusHasRowsOfAll) {
  auto small = Small();
  small.options.run.explicit_gpus = true;
  auto const timeline = small.timeline(SubLayerRun::t3);
  EXPECT_EQ(timeline.gpus, 4);
  EXPECT_EQ(timeline.tiles.size(), 4 * 64U);
  EXPECT_EQ(timeline.counters.size(), 4U);
  std::map<int, int> links;
  for (auto const& track : timeline.tracks) links[track.gpu] += track.name.rfind("link", 0) == 0;
  EXPECT_THAT(links, testing::ElementsAre(testing::Pair(0, 1), testing::Pair(1, 1), testing::Pair(2, 1),
                                          testing::Pair(3, 1)));
  EXPECT_TRUE(parse_timeline(print_timeline(timeline), "run.json").has_value());
}

TEST(OverlapTimeline, OfFullyConnectedGpusHasARowForEachLink) {
  Small const small;
  auto const problem = sub_layer_gemm(small.model, small.gpus, SubLayer::fc2);
  auto const pipeline = sub_layer_pipeline(problem, small.options.kernel, small.gpus).value();
  auto const outputs = configure(pipeline, Topology::fully_connected, Raster::row).value();
  OverlapOptions options;
  options.record = true;
  auto const run = run_gemm(small.machine, problem, small.options.kernel, outputs, false, options);
  ASSERT_TRUE(run.has_value()) << to_text(run.error());
  std::vector<std::string> names;
  for (auto const& track : run->timeline.tracks) names.push_back(track.name);
  EXPECT_THAT(names, testing::ElementsAre("link to GPU 1", "link to GPU 2", "link to GPU 3"));
  EXPECT_TRUE(parse_timeline(print_timeline(run->timeline), "run.json").has_value());
}

TEST(OverlapTimeline, BinsAreJoinedUntilFewEnoughAreLeft) {
  auto small = Small();
  small.options.run.series_ps = 10'000;
  auto const timeline = small.timeline(SubLayerRun::gemm);
  auto const& counter = timeline.counters.front();
  EXPECT_LE(counter.bytes.size() / counter.classes.size(), 2048U);
  EXPECT_GT(counter.bytes.size() / counter.classes.size(), 1000U);
  EXPECT_EQ(counter.bin % 10'000, 0);
}

TEST(OverlapTimeline, MoreThanARecordingHoldsIsRefusedBeforeItIsSimulated) {
  auto small = Small();
  small.model.sequence = 1 << 22;
  small.model.inner = 128;  // a slice of k, so that so many tiles can be simulated
  auto const refused =
      sub_layer_timeline(small.machine, small.model, 4, SubLayer::fc2, SubLayerRun::t3, small.options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0545: a recording of 1441792 blocks and transfers; the most is 1000000\n"
            "   hint: 2908160 tokens on as many GPUs can be recorded");
  small.model.sequence = 2'908'160;
  auto const rows = small.model.sequence / small.options.kernel.tile_m;
  auto const columns = small.model.hidden / small.options.kernel.tile_n;
  EXPECT_LE(overlap::recorded_on_ring(rows * columns, 4, small.options.kernel.wavefronts), k_most_recorded);
  small.model.sequence = 1 << 22;
  EXPECT_FALSE(sub_layer_timeline(small.machine, small.model, 4, SubLayer::fc2, SubLayerRun::reduce_scatter,
                                  small.options)
                   .has_value());
}

TEST(OverlapTimeline, ConfigurationsThatAreNoneAreRefused) {
  Small const small;
  auto const problem = sub_layer_gemm(small.model, 4, SubLayer::fc2);
  auto output = local_output(8, 8, Raster::row);
  output.chunk_of = {0, 1};
  auto const refused = run_gemm(small.machine, problem, small.options.kernel, {output}, true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(to_text(refused.error()), testing::HasSubstr("E0544"));
  EXPECT_THAT(
      to_text(sub_layer_timeline(small.machine, small.model, 7, SubLayer::fc2, SubLayerRun::t3, small.options)
                  .error()),
      testing::HasSubstr("E0543"));
  auto without = small.machine;
  without.overlap.reset();
  for (auto const run : k_sub_layer_runs)
    EXPECT_THAT(
        to_text(sub_layer_timeline(without, small.model, 4, SubLayer::fc2, run, small.options).error()),
        testing::HasSubstr("E0541"));
}

}  // namespace
}  // namespace tessera
