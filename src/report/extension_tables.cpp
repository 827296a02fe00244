// SPDX-License-Identifier: Apache-2.0
#include "report/extension_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::report {
namespace {

double us(std::int64_t ps) { return static_cast<double>(ps) * 1e-6; }
double mb(double bytes) { return bytes * 1e-6; }

}  // namespace

StudyTable collective_mean_table(std::vector<FusedCollective> const& runs) {
  StudyTable t{"collective-means",
               "Sections 7.1 and 7.2: collectives, geometric means over the sub-layers",
               "Of the next table.",
               {"collective", "links", "GPUs", "ideal", "T3", "T3-MCA", "memory traffic saved %"},
               {},
               {StudyPlot::Kind::bars, {0, 1, 2}, {3, 4, 5}, 1, ""}};
  struct Sums {
    std::vector<double> ideal, t3, mca;
    double apart = 0, fused = 0;
  };
  for (auto const& way : k_collective_ways) {
    std::map<std::pair<Links, int>, Sums> by_deployment;
    for (auto const& r : runs) {
      if (r.collective != way.name) continue;
      auto& sums = by_deployment[{r.links, r.gpus}];
      sums.ideal.push_back(r.speedup(r.ideal()));
      sums.t3.push_back(r.speedup(r.t3.end));
      sums.mca.push_back(r.speedup(r.t3_mca.end));
      sums.apart += r.apart_bytes;
      sums.fused += r.fused_bytes();
    }
    for (auto const& [deployment, sums] : by_deployment)
      t.rows.push_back({way.name, to_text(deployment.first), static_cast<double>(deployment.second),
                        spread_of(sums.ideal).mean, spread_of(sums.t3).mean, spread_of(sums.mca).mean,
                        100 * (1 - sums.fused / sums.apart)});
  }
  return t;
}

StudyTable collective_table(std::vector<FusedCollective> const& runs) {
  StudyTable t{
      "collectives",
      "Sections 7.1 and 7.2: a sub-layer's GEMM with each collective",
      "Speed-ups over GEMM and collective one after the other; nothing comes after them. reduce_scatter and "
      "all_reduce go around the ring; the direct ones have a link to every other GPU, each as fast as the "
      "ring's (own) or all together as fast (shared). The all-to-all sends the sub-layer's output as an "
      "expert's would be. An all_gather_gemm gathers the input of the layer's GEMM in the other pass (IP and "
      "FC-1 forward, FC-2 and OP backward), whose work-groups start when the rows have come that they read. "
      "Link MB are sent, memory MB moved by one GPU; apart: by two kernels. The paper "
      "gives no numbers.",
      {"model", "GPUs", "layer", "collective", "links", "GEMM us", "alone us", "apart us", "ideal", "T3",
       "T3-MCA", "link MB apart", "link MB", "memory MB apart", "memory MB"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2, 3, 4}, {8, 9, 10}, 1, ""}};
  t.wide_columns = {5, 6, 11, 13, 14};
  for (auto const& r : runs)
    t.rows.push_back({r.model, static_cast<double>(r.gpus), to_text(r.layer), r.collective, to_text(r.links),
                      us(r.gemm), us(r.alone), us(r.sequential()), r.speedup(r.ideal()), r.speedup(r.t3.end),
                      r.speedup(r.t3_mca.end), mb(r.alone_link_bytes), mb(r.t3_mca.link_bytes),
                      mb(r.apart_bytes), mb(r.fused_bytes())});
  return t;
}

StudyTable tracker_table(OverlapStudy const& study) {
  auto const& h = *study.machine.overlap;
  StudyTable t{
      "tracker",
      "Section 4.2.1: the Tracker's size",
      fmt::format("T3-MCA. Wavefront tiles that have received some of their updates and not all, and how "
                  "many of them found no place in {} sets of {} ways, and in more sets. The paper "
                  "sizes the Tracker (19 KB) for one stage of work-groups; where local updates run "
                  "ahead of incoming ones more is open. What does not fit is counted and costs the "
                  "simulation nothing: on the real thing the program would fail or stall.",
                  h.tracker_sets, h.tracker_ways),
      {"model", "GPUs", "layer", "live at once"},
      {},
      {}};
  for (int d = 0; d < k_tracker_doublings; ++d)
    t.columns.push_back(fmt::format("beyond {} x {}", h.tracker_sets << d, h.tracker_ways));
  t.columns.insert(t.columns.end(),
                   {"sets needed", "KB", fmt::format("ways needed in {} sets", h.tracker_sets)});
  constexpr double k_paper_kb = 19.0 / (256 * 8);
  for (auto const& need : study.tracker) {
    std::vector<StudyCell> row{need.model, static_cast<double>(need.gpus), to_text(need.layer),
                               static_cast<double>(need.live)};
    for (auto const overflows : need.overflows_by_sets) row.emplace_back(static_cast<double>(overflows));
    row.emplace_back(static_cast<double>(need.sets_needed));
    row.emplace_back(k_paper_kb * need.sets_needed * h.tracker_ways);
    row.emplace_back(static_cast<double>(need.ways_needed));
    t.rows.push_back(std::move(row));
  }
  return t;
}

StudyTable node_table(std::vector<NodeRing> const& points) {
  StudyTable t{
      "nodes",
      "Section 7.8: a ring over several nodes",
      "The whole ring at the rate and latency of the links between nodes: every chunk goes over every link, "
      "so "
      "that the slowest sets the pace. 25 and 12.5 GB/s are InfiniBand HDR and EDR, 2 us are assumed. \"GEMM "
      "hidden\" is the share of the GEMM's time that T3-MCA saves: the paper expects T3 to hide the GEMM and "
      "leave the rest of communication exposed.",
      {"model", "GPUs", "layer", "link GB/s", "GEMM us", "reduce-scatter us", "all-gather us",
       "ideal overlap", "T3", "T3-MCA", "GEMM hidden %"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2, 3}, {7, 8, 9}, 1, ""}};
  for (auto const& [gbps, latency, r] : points)
    t.rows.push_back(
        {r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), gbps, us(r.gemm.end),
         us(r.collectives.reduce_scatter.end), us(r.collectives.all_gather.end), r.speedup(r.ideal()),
         r.speedup(r.fused()), r.speedup(r.fused_mca()),
         100 * static_cast<double>(r.sequential() - r.fused_mca()) / static_cast<double>(r.gemm.end)});
  return t;
}

StudyTable generation_table(std::vector<GenerationPoint> const& points) {
  StudyTable t{
      "generation",
      "Section 7.3: few tokens at a time",
      "Assumed kernel: tiles as high as the tokens (16 at least), as many slices under way as fit where the "
      "large tile's do; split-K has a table of its own. The paper: GEMMs are bound by the weights' reads, "
      "the all-reduce perhaps "
      "by "
      "latency, and it can still be hidden.",
      {"model", "GPUs", "layer", "tokens", "tile", "GEMM us", "reduce-scatter us", "all-gather us",
       "ideal overlap", "T3", "T3-MCA"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2, 3}, {8, 9, 10}, 1, ""}};
  for (auto const& [kernel, r] : points)
    t.rows.push_back(
        {r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), static_cast<double>(r.problem.m),
         fmt::format("{}x{}x{}, {} stages", kernel.tile_m, kernel.tile_n, kernel.tile_k, kernel.stages),
         us(r.gemm.end), us(r.collectives.reduce_scatter.end), us(r.collectives.all_gather.end),
         r.speedup(r.ideal()), r.speedup(r.fused()), r.speedup(r.fused_mca())});
  return t;
}

StudyTable split_table(std::vector<SplitPoint> const& points) {
  StudyTable t{
      "split-k",
      "Section 7.7: split-K for few tokens",
      "Token generation with k in splits, one work-group for each of a tile's. Apart a second pass reads the "
      "partial "
      "sums (two bytes each) through L2 and adds them up; fused each is an update near memory, and a tile is "
      "sent on when all have come. Points whose splits have less than two slices of k are left out. "
      "Speed-ups over the unsplit GEMM, reduce-scatter and all-gather one after the "
      "other; \"T3-MCA, one\" is unsplit.",
      {"model", "GPUs", "layer", "tokens", "splits", "work-groups", "GEMM us, one", "GEMM us",
       "of it second pass us", "reduce-scatter us", "all-gather us", "apart", "ideal overlap", "T3-MCA, one",
       "T3", "T3-MCA"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2, 3, 4}, {11, 12, 13, 15}, 1, ""}};
  t.wide_columns = {8, 9, 10};
  for (auto const& [kernel, whole, r] : points) {
    auto const tiles = ((r.problem.n + kernel.tile_n - 1) / kernel.tile_n) *
                       ((r.problem.m + kernel.tile_m - 1) / kernel.tile_m);
    t.rows.push_back(
        {r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), static_cast<double>(r.problem.m),
         static_cast<double>(kernel.splits), static_cast<double>(tiles * kernel.splits), us(whole.gemm.end),
         us(r.gemm.end), us(r.gemm.second_pass), us(r.collectives.reduce_scatter.end),
         us(r.collectives.all_gather.end), whole.speedup(r.sequential()), whole.speedup(r.ideal()),
         whole.speedup(whole.fused_mca()), whole.speedup(r.fused()), whole.speedup(r.fused_mca())});
  }
  return t;
}

StudyTable precision_table(std::vector<PrecisionPoint> const& points) {
  StudyTable t{
      "fp8",
      "Section 7.5: fp8 operands",
      "Half the bytes and twice the rate for each element of k; partial sums are exchanged in fp16, so that "
      "communication stays. The paper expects lower precision to save more compute than communication.",
      {"model", "GPUs", "layer", "GEMM us", "GEMM us, fp8", "ideal", "ideal, fp8", "T3", "T3, fp8", "T3-MCA",
       "T3-MCA, fp8"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2}, {9, 10}, 1, ""}};
  for (auto const& [a, b] : points)
    t.rows.push_back({a.model, static_cast<double>(a.tensor_parallel), to_text(a.layer), us(a.gemm.end),
                      us(b.gemm.end), a.speedup(a.ideal()), b.speedup(b.ideal()), a.speedup(a.fused()),
                      b.speedup(b.fused()), a.speedup(a.fused_mca()), b.speedup(b.fused_mca())});
  return t;
}

StudyTable following_table(OverlapStudy const& study) {
  StudyTable t{"following",
               "Section 7.6: the residual's addition near memory",
               "An estimate at memory's peak, not simulated: after the all-gather every GPU adds the whole "
               "residual (two "
               "reads, one write of the output); near memory each adds its own chunk before the all-gather "
               "(a read and "
               "an update of 1/N). Speed-ups over the sequential sub-layer with the addition.",
               {"model", "GPUs", "layer", "MB after", "MB near memory", "us after", "us near memory",
                "T3-MCA", "T3-MCA, near memory"},
               {},
               {StudyPlot::Kind::bars, {0, 1, 2}, {7, 8}, 1, ""}};
  auto const& h = *study.machine.overlap;
  auto const bytes_per_us = h.channels * 32 * h.dram_clock_ghz * 1e3;
  for (auto const& r : study.sub_layers) {
    if (!is_main(r) || (r.layer != SubLayer::output_projection && r.layer != SubLayer::fc2)) continue;
    auto const output = static_cast<double>(r.problem.m * r.problem.n * 2);
    auto const after = 3 * output / bytes_per_us;
    auto const near = 2 * output / r.tensor_parallel / bytes_per_us;
    auto const whole = us(r.sequential()) + after;
    t.rows.push_back({r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), mb(3 * output),
                      mb(2 * output / r.tensor_parallel), after, near, whole / (us(r.fused_mca()) + after),
                      whole / (us(r.fused_mca()) + near)});
  }
  return t;
}

}  // namespace tessera::report
