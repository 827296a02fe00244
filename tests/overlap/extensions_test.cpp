// SPDX-License-Identifier: Apache-2.0
// Section 7 of T3's paper: collectives of real sizes against their closed forms, and what else a model can
// do.
#include "tessera/overlap/extensions.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "overlap/study_parts.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

OverlapStudySettings settings_of(TransformerModel model) {
  OverlapStudySettings settings{machine("t3").value(), {std::move(model)}, {}, false, {}};
  settings.options.kernel = default_gemm_kernel(settings.machine);
  return settings;
}

CollectiveProblem direct(Collective collective, int gpus, double megabytes) {
  CollectiveProblem problem;
  problem.collective = collective;
  problem.gpus = gpus;
  problem.bytes = megabytes * 1e6;
  return problem;
}

TEST(DirectCollective, BytesAndTimeAreThoseOfTheAlgorithm) {
  auto const machine = tessera::machine("t3").value();
  for (int const gpus : {4, 8, 16}) {
    auto problem = direct(Collective::all_to_all, gpus, 64);
    auto const chunk = problem.bytes / gpus;
    auto const exchanged = run_direct_collective(machine, problem).value();
    EXPECT_NEAR(exchanged.link_bytes, (gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(exchanged, Traffic::collective_read), (gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(exchanged, Traffic::collective_write), (gpus - 1) * chunk, 1);
    auto const links = chunk / machine.overlap->link_gbps + machine.overlap->link_latency_ns;
    auto const memory = 2 * (gpus - 1) * chunk / machine.dram_gbps;
    EXPECT_GT(static_cast<double>(exchanged.end) / 1000, std::max(links, memory));
    EXPECT_LT(static_cast<double>(exchanged.end) / 1000, (links + memory) * 1.5);

    problem.collective = Collective::reduce_scatter;
    auto const reduced = run_direct_collective(machine, problem).value();
    EXPECT_NEAR(bytes_of(reduced, Traffic::collective_read), (2 * gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(reduced, Traffic::collective_write), gpus * chunk, 1);
    EXPECT_GT(reduced.end, exchanged.end);
    problem.near_memory = true;
    auto const near = run_direct_collective(machine, problem).value();
    EXPECT_NEAR(bytes_of(near, Traffic::collective_read), (gpus - 1) * chunk, 1);
    EXPECT_LT(near.end, reduced.end);
  }
}

TEST(DirectCollective, OneGpuStandsForAll) {
  auto const machine = tessera::machine("t3").value();
  for (auto const kind : {Collective::reduce_scatter, Collective::all_to_all}) {
    auto const problem = direct(kind, 4, 6);
    auto const one = run_direct_collective(machine, problem).value();
    OverlapOptions options;
    options.explicit_gpus = true;
    auto const all = run_direct_collective(machine, problem, options).value();
    EXPECT_NEAR(static_cast<double>(all.end), static_cast<double>(one.end),
                0.02 * static_cast<double>(one.end));
    EXPECT_NEAR(all.link_bytes, one.link_bytes, 1);
  }
}

TEST(DirectCollective, RefusesWhatItIsNot) {
  auto const machine = tessera::machine("t3").value();
  auto const refused = run_direct_collective(machine, direct(Collective::all_reduce, 8, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0544: a direct collective of 1e+06 bytes on 8 GPUs\n"
            "   hint: a reduce-scatter, all-gather or all-to-all of 1 byte to 1 TB on 2 to 1024 GPUs");
  OverlapOptions options;
  options.lose_update = 5;
  auto const stuck = run_direct_collective(machine, direct(Collective::all_to_all, 4, 6), options);
  ASSERT_FALSE(stuck.has_value());
  EXPECT_EQ(stuck.error().front().code, "E0542");
  auto const nothing =
      run_direct_collective(tessera::machine("a100").value(), direct(Collective::all_to_all, 4, 6));
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().front().code, "E0541");
}

// T-NLG's OP on 8 GPUs, the paper's size: what goes over links and through memory, in chunks of 1/8.
TEST(FusedCollectives, ASubLayersBytesAreThoseOfTheAlgorithms) {
  struct Chunks {
    double link, alone_moved, read, written, gemm_written;
  };
  constexpr double n = 8;
  // Alone: a ring's steps read two copies from the second one on, and the last one keeps the sum; a direct
  // reduce-scatter reads all copies of one chunk at the end. All of it once read and once written beside.
  std::map<std::string, Chunks> const expected{
      {"reduce_scatter", {n - 1, 3 * n - 1, n - 2, n - 1, n - 1}},
      {"direct_reduce_scatter", {n - 1, 3 * n - 1, 0, n - 1, 1}},
      {"all_reduce", {2 * (n - 1), 3 * n - 1 + 2 * (n - 1), 2 * n - 3, 2 * (n - 1), n - 1}},
      {"all_to_all", {n - 1, 2 * (n - 1), 0, n - 1, 1}}};
  auto model = t3_models()[1];
  model.tensor_parallel = {8};
  auto const settings = settings_of(model);
  auto const sub_layers = overlap::run_sub_layers(settings.machine, settings.models,
                                                  {SubLayer::output_projection}, settings.options, {});
  ASSERT_TRUE(sub_layers.has_value());
  std::vector<CollectiveWay> ways;
  std::copy_if(k_collective_ways.begin(), k_collective_ways.end(), std::back_inserter(ways),
               [](auto const& way) { return !way.before; });
  auto const runs = overlap::fused_collectives(settings, *sub_layers, ways);
  ASSERT_TRUE(runs.has_value()) << to_text(runs.error());
  ASSERT_EQ(runs->size(), expected.size() + 2) << "direct ones with links of their own and shared ones";
  double const gemm = bytes_of(sub_layers->front().gemm, Traffic::gemm_read) +
                      bytes_of(sub_layers->front().gemm, Traffic::gemm_write);
  for (auto const& r : *runs) {
    auto const& want = expected.at(r.collective);
    auto const chunk = r.array_bytes / n;
    EXPECT_NEAR(r.alone_link_bytes, want.link * chunk, 1) << r.collective;
    EXPECT_NEAR(r.apart_bytes - gemm, want.alone_moved * chunk, 1) << r.collective;
    for (auto const* fused : {&r.t3, &r.t3_mca}) {
      EXPECT_NEAR(fused->link_bytes, want.link * chunk, 1) << r.collective;
      EXPECT_NEAR(bytes_of(*fused, Traffic::collective_read), want.read * chunk, 1) << r.collective;
      EXPECT_NEAR(bytes_of(*fused, Traffic::collective_write), want.written * chunk, 1) << r.collective;
      EXPECT_NEAR(bytes_of(*fused, Traffic::gemm_write), want.gemm_written * chunk, 1) << r.collective;
    }
    EXPECT_LT(r.t3_mca.end, r.sequential()) << r.collective;
    EXPECT_GE(r.t3_mca.end, r.t3_mca.gemm_end) << r.collective;
  }
  EXPECT_EQ(runs->front().t3, sub_layers->front().t3) << "the ring has been run already";
  for (auto const& own : *runs)
    for (auto const& shared : *runs)
      if (own.collective == shared.collective && own.links == Links::own && shared.links == Links::shared) {
        auto const sent = own.alone_link_bytes / settings.machine.overlap->link_gbps;
        EXPECT_GT(static_cast<double>(shared.alone) / 1000, sent) << own.collective;
        EXPECT_GT(static_cast<double>(shared.t3.end) / 1000, sent) << own.collective;
        EXPECT_LT(own.alone, shared.alone / 2) << own.collective;
      }
}

TEST(FusedCollectives, SlowLinksHideTheGemmAndNoMore) {
  auto model = t3_models()[0];
  model.tensor_parallel = {16};
  auto const points = overlap::node_rings(settings_of(model));
  ASSERT_TRUE(points.has_value()) << to_text(points.error());
  ASSERT_EQ(points->size(), 6U) << "two layers, the machine's own links and two slower ones";
  for (auto const& p : *points) {
    auto const ring = 15 * (static_cast<double>(p.runs.problem.m * p.runs.problem.n * 2) / 16 / p.link_gbps);
    EXPECT_GT(static_cast<double>(p.runs.t3_mca.end) / 1000, ring) << "no faster than its links";
  }
  auto const slowest = points->at(2);
  EXPECT_EQ(slowest.link_gbps, 12.5);
  EXPECT_LT(slowest.runs.speedup(slowest.runs.ideal()),
            points->at(0).runs.speedup(points->at(0).runs.ideal()));
}

TEST(Generation, TilesAreAsHighAsTheTokensAndDivideAmongTheGpus) {
  auto const points = overlap::generation(settings_of({"small", 3072, 1, 1, 1, {16}}), k_generation_rows);
  ASSERT_TRUE(points.has_value()) << to_text(points.error());
  ASSERT_EQ(points->size(), 8U);
  for (auto const& [kernel, runs] : *points) {
    EXPECT_GE(kernel.tile_m, runs.problem.m);
    EXPECT_EQ(3072 / kernel.tile_n % 16, 0);
    EXPECT_GE(bytes_of(runs.gemm, Traffic::gemm_read),
              static_cast<double>(runs.problem.n * runs.problem.k * 2) * 0.999)
        << "all weights";
    EXPECT_GT(runs.collectives.all_gather.end, 15 * 500'000) << "fifteen latencies at least";
  }
}

TEST(Precision, HalfTheDepthIsHalfTheOperands) {
  auto const settings = settings_of({"small", 1024, 12, 2048, 1, {8}});
  auto const sub_layers =
      overlap::run_sub_layers(settings.machine, settings.models, {SubLayer::fc2}, settings.options, {});
  auto const points = overlap::precisions(settings, sub_layers.value());
  ASSERT_TRUE(points.has_value() && points->size() == 1);
  auto const& [fp16, fp8] = points->front();
  EXPECT_NEAR(bytes_of(fp8.gemm, Traffic::gemm_read), bytes_of(fp16.gemm, Traffic::gemm_read) / 2,
              0.01 * bytes_of(fp16.gemm, Traffic::gemm_read));
  EXPECT_LT(fp8.gemm.end, fp16.gemm.end);
  EXPECT_EQ(fp8.t3.link_bytes, fp16.t3.link_bytes);
}

TEST(TrackerNeed, IsTheSizeThatNothingOverflows) {
  auto settings = settings_of({"small", 1024, 12, 4096, 1, {8}});
  settings.machine.overlap->tracker_sets = 4;
  settings.machine.overlap->tracker_ways = 8;
  auto const sub_layers = overlap::run_sub_layers(settings.machine, settings.models,
                                                  {SubLayer::output_projection}, settings.options, {});
  auto const needs = overlap::tracker_needs(settings, sub_layers.value());
  ASSERT_TRUE(needs.has_value() && needs->size() == 1);
  auto const& need = needs->front();
  ASSERT_GT(need.overflows, 0) << "four sets hold four work-groups";
  ASSERT_GT(need.sets_needed, 4);
  settings.machine.overlap->tracker_sets = need.sets_needed;
  auto const enough = overlap::run_sub_layers(settings.machine, settings.models,
                                              {SubLayer::output_projection}, settings.options, {});
  EXPECT_EQ(enough->front().t3_mca.tracker_overflows, 0);
  settings.machine.overlap->tracker_sets = need.sets_needed / 2;
  auto const half = overlap::run_sub_layers(settings.machine, settings.models, {SubLayer::output_projection},
                                            settings.options, {});
  EXPECT_GT(half->front().t3_mca.tracker_overflows, 0);
}

}  // namespace
}  // namespace tessera
