// SPDX-License-Identifier: Apache-2.0
// T3's study as tables: the paper's figures, what it states, and the sweeps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/extension_tables.hpp"
#include "report/headline_tables.hpp"
#include "report/study_machine.hpp"
#include "tessera/overlap/study.hpp"
#include "tessera/report/study.hpp"

namespace tessera {
namespace {

using namespace report;
using Row = std::vector<StudyCell>;

double us(std::int64_t ps) { return static_cast<double>(ps) * 1e-6; }
double mb(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)] * 1e-6;
}
double rounded(double value, double unit) { return std::round(value / unit) * unit; }

StudyTable figure_4(OverlapStudy const& study) {
  StudyTable t{
      "figure-4",
      "Figure 4: the sliced sub-layers' time, GEMM, reduce-scatter and all-gather",
      "Shares of the sub-layers' own time, all four together. The paper's figure is of whole models, whose "
      "other operations it measured; it states that communication is up to 34 % of training and 43 % of a "
      "prompt (46 % and 44 % for the larger models).",
      {"model", "GPUs", "GEMM %", "reduce-scatter %", "all-gather %"},
      {},
      {StudyPlot::Kind::bars, {0, 1}, {2, 3, 4}, 0, "%"}};
  for (std::size_t i = 0; i < study.sub_layers.size();) {
    auto const& first = study.sub_layers[i];
    double gemm = 0, scatter = 0, gather = 0;
    for (; i < study.sub_layers.size(); ++i) {
      auto const& runs = study.sub_layers[i];
      if (runs.model != first.model || runs.tensor_parallel != first.tensor_parallel) break;
      gemm += us(runs.gemm.end);
      scatter += us(runs.collectives.reduce_scatter.end);
      gather += us(runs.collectives.all_gather.end);
    }
    auto const whole = (gemm + scatter + gather) / 100;
    t.rows.push_back({first.model, static_cast<double>(first.tensor_parallel), gemm / whole, scatter / whole,
                      gather / whole});
  }
  return t;
}

StudyTable figure_6(OverlapStudy const& study) {
  StudyTable t{
      "figure-6",
      "Figure 6: SMs split between GEMM and all-reduce",
      "What overlap could gain if GEMM and all-reduce shared nothing but SMs. The paper's geometric means: "
      "1.67 "
      "with all SMs for both; 1.18 with 72 and 8 (all-reduce 41 % slower); 1.49 with 64 and 16 (all-reduce 7 "
      "%, "
      "GEMM 21 % slower).",
      {"model", "layer", "SMs", "GEMM slower %", "all-reduce slower %", "potential speed-up", "ideal"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2}, {5, 6}, 1, ""}};
  for (auto const& s : study.sm_splits)
    t.rows.push_back({s.model, to_text(s.layer), fmt::format("{}-{}", s.gemm_sms, s.collective_sms),
                      100 * (static_cast<double>(s.gemm) / static_cast<double>(s.gemm_whole) - 1),
                      100 * (static_cast<double>(s.all_reduce) / static_cast<double>(s.all_reduce_whole) - 1),
                      s.potential(),
                      static_cast<double>(s.gemm_whole + s.all_reduce_whole) /
                          static_cast<double>(std::max(s.gemm_whole, s.all_reduce_whole))});
  return t;
}

StudyTable figure_14(OverlapStudy const& study) {
  StudyTable t{"figure-14",
               "Figure 14: reduce-scatter on four GPUs against its closed form",
               "The paper compares its simulator with four MI210 (6 % geometric mean error) and shows no "
               "numbers; here "
               "the simulator is compared with (N - 1) (chunk / bandwidth + latency) and a last step at "
               "memory's peak.",
               {"MB", "simulated us", "closed form us", "difference %"},
               {},
               {StudyPlot::Kind::lines, {0}, {1, 2}, 0, ""}};
  for (auto const& p : study.ring)
    t.rows.push_back(
        {p.megabytes, p.simulated_us, p.closed_form_us, 100 * (p.simulated_us / p.closed_form_us - 1)});
  return t;
}

StudyTable figure_15(OverlapStudy const& study) {
  StudyTable t{"figure-15",
               "Figure 15: where the sub-layers' time goes",
               "Each part alone on the whole GPU.",
               {"model", "GPUs", "layer", "GEMM us", "reduce-scatter us", "all-gather us",
                "reduce-scatter near memory us", "GEMM TFLOP/s"},
               {},
               {StudyPlot::Kind::bars, {0, 1, 2}, {3, 4, 5}, 0, " us"}};
  for (auto const& r : study.sub_layers)
    t.rows.push_back({r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), us(r.gemm.end),
                      us(r.collectives.reduce_scatter.end), us(r.collectives.all_gather.end),
                      us(r.collectives.reduce_scatter_near_memory.end),
                      2e-6 * static_cast<double>(r.problem.m * r.problem.n) *
                          static_cast<double>(r.problem.k) / us(r.gemm.end)});
  return t;
}

StudyTable speedups(std::string id, std::string title, std::string note,
                    std::vector<SubLayerRuns> const& runs) {
  StudyTable t{std::move(id),
               std::move(title),
               std::move(note),
               {"model", "GPUs", "layer", "ideal overlap", "ideal + near memory", "T3", "T3-MCA",
                "GEMM slower in T3 %", "in T3-MCA %", "threshold", "intensity", "tracked at once",
                "beyond the Tracker"},
               {},
               {StudyPlot::Kind::bars, {0, 1, 2}, {5, 6, 3, 4}, 1, ""}};
  for (auto const& r : runs)
    t.rows.push_back({r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), r.speedup(r.ideal()),
                      r.speedup(r.ideal_near_memory()), r.speedup(r.fused()), r.speedup(r.fused_mca()),
                      100 * (static_cast<double>(r.t3.gemm_end) / static_cast<double>(r.gemm.end) - 1),
                      100 * (static_cast<double>(r.t3_mca.gemm_end) / static_cast<double>(r.gemm.end) - 1),
                      static_cast<double>(r.t3_mca.threshold), rounded(r.t3_mca.intensity, 0.001),
                      static_cast<double>(r.t3.tracker_peak), static_cast<double>(r.t3.tracker_overflows)});
  return t;
}

std::vector<StudyTable> figure_17(OverlapStudy const& study) {
  std::vector<StudyTable> tables;
  for (auto const& series : study.traffic) {
    StudyTable t{
        fmt::format("figure-17-{}", tables.size() + 1),
        "Figure 17: memory traffic, " + series.name,
        "GB/s of one GPU's memory. The paper shows read phases and bursts of writes of the GEMM alone, and "
        "reads and updates of the reduce-scatter between them in T3; it gives no numbers.",
        {"us", "GEMM reads", "GEMM writes", "RS reads", "RS writes"},
        {},
        {StudyPlot::Kind::lines, {0}, {1, 2, 3, 4}, 0, " GB/s"}};
    for (std::size_t b = 0; b < series.run.series.size(); ++b) {
      Row row{static_cast<double>(b) * series.bin_us};
      for (auto const bytes : series.run.series[b])
        row.emplace_back(rounded(static_cast<double>(bytes) / (series.bin_us * 1e3), 0.1));
      t.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(t));
  }
  return tables;
}

StudyTable figure_18(OverlapStudy const& study) {
  StudyTable t{
      "figure-18",
      "Figure 18: memory traffic of a sub-layer",
      "MB of one GPU's memory. Reduce-scatter and writes follow the closed forms of the algorithm; GEMM "
      "reads "
      "depend on L2 and on the raster, see the sweep.",
      {"model", "GPUs", "layer", "GEMM reads", "GEMM writes", "RS reads", "RS writes", "AG reads and writes",
       "GEMM reads T3", "GEMM writes T3", "RS reads T3", "RS writes T3", "sequential", "T3-MCA", "saved %"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2}, {12, 13}, 0, " MB"}};
  for (auto const& r : study.sub_layers) {
    auto const& scatter = r.collectives.reduce_scatter;
    auto const& gather = r.collectives.all_gather;
    t.rows.push_back({r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer),
                      mb(r.gemm, Traffic::gemm_read), mb(r.gemm, Traffic::gemm_write),
                      mb(scatter, Traffic::collective_read), mb(scatter, Traffic::collective_write),
                      mb(gather, Traffic::collective_read) + mb(gather, Traffic::collective_write),
                      mb(r.t3_mca, Traffic::gemm_read), mb(r.t3_mca, Traffic::gemm_write),
                      mb(r.t3_mca, Traffic::collective_read), mb(r.t3_mca, Traffic::collective_write),
                      moved_sequential(r) * 1e-6, moved_fused(r) * 1e-6,
                      100 * (1 - moved_fused(r) / moved_sequential(r))});
  }
  return t;
}

StudyTable figure_19(OverlapStudy const& study) {
  StudyTable t{
      "figure-19",
      "Figure 19: whole models, as ranges",
      "1 / (1 - f + f / s), s from the simulation. The paper's breakdown is not published: f follows from "
      "the "
      "assumption that communication takes between half of what the paper states as most (34 % of training, "
      "43 % "
      "of a prompt; 46 % and 44 % for the larger models) and that. The paper: T3-MCA up to 1.12 in training "
      "(geometric mean 1.10) and 1.15 in a prompt (1.12); T3 1.09 (1.07) and 1.12 (1.09); larger models up "
      "to "
      "1.12 and 1.14. 1T and 10T are of the sizes that docs/t3-collectives.md assumes; an f of 1 is the "
      "assumption at "
      "its end: communication cannot take so much of the whole there.",
      {"model", "GPUs", "phase", "s", "f low", "f high", "T3-MCA low", "T3-MCA high", "T3 low", "T3 high"},
      {},
      {StudyPlot::Kind::bars, {0, 1, 2}, {6, 7}, 1, ""}};
  for (auto const& e : study.end_to_end)
    t.rows.push_back({e.model, static_cast<double>(e.tensor_parallel), e.training ? "training" : "prompt",
                      e.sub_layers, e.share_low, e.share_high, e.low, e.high, e.t3_low, e.t3_high});
  return t;
}

StudyTable figure_20(OverlapStudy const& study) {
  StudyTable t{"figure-20",
               "Figure 20: twice the SMs, same links and memory",
               "T3-MCA. The paper: larger layers (FC-2) gain more than before, smaller ones (OP) less.",
               {"model", "GPUs", "layer", "T3-MCA", "T3-MCA, 2x SMs", "change"},
               {},
               {StudyPlot::Kind::bars, {0, 1, 2}, {3, 4}, 1, ""}};
  for (auto const& twice : study.twice_the_sms)
    for (auto const& r : study.sub_layers)
      if (r.model == twice.model && r.tensor_parallel == twice.tensor_parallel && r.layer == twice.layer) {
        auto const before = r.speedup(r.fused_mca());
        auto const after = twice.speedup(twice.fused_mca());
        t.rows.push_back({r.model, static_cast<double>(r.tensor_parallel), to_text(r.layer), before, after,
                          after > before ? "more" : "less"});
      }
  return t;
}

StudyTable agreement_table(OverlapStudy const& study) {
  StudyTable t{"agreement",
               "One GPU and one channel stand for all",
               "IP of T-NLG (or of the first model). The report uses the first line's mode.",
               {"mode", "GEMM us", "T3 us", "T3-MCA us", "GEMM reads MB in T3", "events"},
               {},
               {}};
  for (auto const& p : study.agreement)
    t.rows.push_back(
        {p.mode, us(p.gemm), us(p.t3), us(p.t3_mca), p.gemm_reads * 1e-6, static_cast<double>(p.events)});
  return t;
}

StudyTable sweep_table(OverlapStudy const& study) {
  StudyTable t{
      "sweep",
      "What each free parameter is worth",
      "One parameter at a time, everything else as in the study; geometric means over the main models' "
      "sub-layers. Where the paper leaves a parameter open, the range is the result, not its best point.",
      {"parameter", "value", "study", "ideal", "T3", "T3-MCA", "ideal most", "T3 most", "T3-MCA most",
       "traffic saved %", "GEMM reads 8 GPUs", "16 GPUs"},
      {},
      {StudyPlot::Kind::bars, {0, 1}, {3, 4, 5}, 1, ""}};
  for (auto const& p : study.sweep)
    t.rows.push_back({p.parameter, p.value, p.base, p.ideal, p.t3, p.t3_mca, p.ideal_most, p.t3_most,
                      p.t3_mca_most, 100 * p.traffic_saved, p.gemm_reads_8, p.gemm_reads_16});
  return t;
}

}  // namespace

StudyDocument study_document(MachineProfile const& machine, std::vector<FusedCollective> const& collectives) {
  StudyDocument document;
  document.title = "GEMMs fused with collectives on " + machine.gpu;
  document.notes = {
      "Simulated: nothing here was measured. One GPU stands for all, one memory channel for all."};
  document.tables = {collective_mean_table(collectives), collective_table(collectives)};
  document.machine = report::study_machine(machine);
  return document;
}

StudyDocument study_document(MachineProfile const& machine, std::vector<SplitPoint> const& points) {
  StudyDocument document;
  document.title = "Split-K for few tokens on " + machine.gpu;
  document.notes = {
      "Simulated: nothing here was measured. One GPU stands for all, one memory channel for all."};
  document.tables = {split_table(points)};
  document.machine = report::study_machine(machine);
  return document;
}

StudyDocument study_document(OverlapStudy const& study) {
  StudyDocument document;
  document.title = "T3: overlap of GEMM and reduce-scatter on " + study.machine.gpu;
  document.notes = {
      "Simulated: nothing here was measured. One GPU stands for all, one memory channel for all; tests hold "
      "both to the full simulation."};
  if (study.machine.name != "t3")
    document.notes.emplace_back(
        "The paper's numbers are of its own machine, not of this one; memory that adds, the Tracker "
        "and the arbitration are hypothetical on any real GPU.");
  auto const heads = headlines(study);
  document.tables = {
      headline_table(heads),
      control_table(heads),
      figure_4(study),
      figure_6(study),
      figure_14(study),
      figure_15(study),
      speedups(
          "figure-16", "Figure 16: speed-up over sequential execution",
          "The paper states: ideal overlap geometric mean 1.35, most 1.50 (T-NLG FC-1, 16 GPUs), least 1.15 "
          "(Mega-GPT-2 OP, 16 GPUs); T3 1.20 and 1.39; T3-MCA 1.30 and 1.47; larger models 1.29 and 1.35.",
          study.sub_layers)};
  for (auto& table : figure_17(study)) document.tables.push_back(std::move(table));
  document.tables.push_back(figure_18(study));
  document.tables.push_back(figure_19(study));
  document.tables.push_back(figure_20(study));
  document.tables.push_back(tracker_table(study));
  document.tables.push_back(collective_mean_table(study.collectives));
  document.tables.push_back(collective_table(study.collectives));
  document.tables.push_back(node_table(study.nodes));
  document.tables.push_back(generation_table(study.generation));
  document.tables.push_back(split_table(study.splits));
  document.tables.push_back(precision_table(study.precision));
  document.tables.push_back(following_table(study));
  document.tables.push_back(agreement_table(study));
  document.tables.push_back(range_table(study, heads));
  document.tables.push_back(sweep_table(study));
  document.machine = report::study_machine(study.machine);
  return document;
}

}  // namespace tessera
