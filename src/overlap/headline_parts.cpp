// SPDX-License-Identifier: Apache-2.0
// What the paper states of parts: memory traffic, near-memory updates, SMs split in two, twice the SMs.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "overlap/headline_rows.hpp"

namespace tessera::overlap {
namespace {

double all_bytes(OverlapRun const& run) { return std::accumulate(run.bytes.begin(), run.bytes.end(), 0.0); }

/// Bytes that near-memory updates spare the reduce-scatter, as it was run alone with them and without.
double spared_near_memory(SubLayerRuns const& runs) {
  return all_bytes(runs.collectives.reduce_scatter) - all_bytes(runs.collectives.reduce_scatter_near_memory);
}

/// Bytes of operands that the bypass spares the GEMM, as it was run alone through L2 and past it.
double spared_by_bypass(MainCase const& c) {
  return bytes_of(c.runs->gemm, Traffic::gemm_read) - c.control->gemm_reads_past_l2;
}

/// Share of a sub-layer's traffic that is saved if so many bytes were not spared.
double saved(SubLayerRuns const& runs, double bytes_more = 0) {
  return 1 - (moved_fused(runs) + bytes_more) / moved_sequential(runs);
}

constexpr double k_points = 4;         // of memory traffic
constexpr double k_bypass_points = 1;  // the paper says that the bypass counts, not how much

void reads_row(HeadlineRows& out, std::vector<MainCase> const& cases, int gpus, double paper,
               double tolerance) {
  std::vector<double> fewer, alone;
  for (auto const& [runs, control] : cases) {
    if (runs->tensor_parallel != gpus) continue;
    auto const reads = bytes_of(runs->gemm, Traffic::gemm_read);
    fewer.push_back(reads / bytes_of(runs->t3_mca, Traffic::gemm_read));
    alone.push_back(reads / control->gemm_reads_past_l2);
  }
  if (fewer.empty()) return;
  auto const value = spread_of(fewer).mean;
  out.add(fmt::format("GEMM reads, times fewer, {} GPUs", gpus), value, paper, tolerance,
          {about("past L2, nothing fused", spread_of(alone).mean, value, tolerance)});
}

}  // namespace

void traffic_rows(HeadlineRows& out, std::vector<MainCase> const& cases) {
  if (cases.empty()) return;
  double mean = 0, no_updates = 0, no_bypass = 0;
  auto const* most = &cases.front();
  std::vector<double> reads, reads_without, writes, writes_apart, writes_without;
  for (auto const& c : cases) {
    auto const& runs = *c.runs;
    auto const share = 100 / static_cast<double>(cases.size());
    mean += share * saved(runs);
    no_updates += share * saved(runs, spared_near_memory(runs));
    no_bypass += share * saved(runs, spared_by_bypass(c));
    if (saved(runs) > saved(*most->runs)) most = &c;
    auto const& [scatter, near] =
        std::tie(runs.collectives.reduce_scatter, runs.collectives.reduce_scatter_near_memory);
    auto const of_scatter = bytes_of(scatter, Traffic::collective_read);
    auto const of_fused = bytes_of(runs.t3_mca, Traffic::collective_read);
    reads.push_back(of_scatter / of_fused);
    reads_without.push_back(of_scatter / (of_fused + of_scatter - bytes_of(near, Traffic::collective_read)));
    auto const of_gemm = bytes_of(runs.gemm, Traffic::gemm_write);
    auto const [alone, added] =
        std::pair{bytes_of(scatter, Traffic::collective_write), bytes_of(near, Traffic::collective_write)};
    auto const fused =
        bytes_of(runs.t3_mca, Traffic::gemm_write) + bytes_of(runs.t3_mca, Traffic::collective_write);
    writes.push_back((of_gemm + alone) / fused);
    writes_apart.push_back((of_gemm + alone) / (of_gemm + added));
    writes_without.push_back((of_gemm + alone) / (fused + alone - added));
  }
  out.add("memory traffic saved, mean, %", mean, 22, k_points,
          {at_most("no near-memory updates", no_updates, mean - k_points),
           at_most("no bypass of L2", no_bypass, mean - k_bypass_points)});
  auto const& highest_runs = *most->runs;
  auto const highest = 100 * saved(highest_runs);
  out.add("memory traffic saved, most, %", highest, 36, k_points,
          {at_most("no near-memory updates", 100 * saved(highest_runs, spared_near_memory(highest_runs)),
                   highest - k_points),
           at_most("no bypass of L2", 100 * saved(highest_runs, spared_by_bypass(*most)),
                   highest - k_bypass_points)});
  auto const read = spread_of(reads).mean;
  out.add("RS reads, times fewer", read, 2.4, 0.1,
          {at_most("no near-memory updates", spread_of(reads_without).mean, read - 0.1)});
  auto const written = spread_of(writes).mean;
  out.add("GEMM and RS writes, times fewer", written, 1.10, 0.02,
          {at_most("near memory, nothing fused", spread_of(writes_apart).mean, written - 0.02),
           at_most("no near-memory updates", spread_of(writes_without).mean, written - 0.02)});
  reads_row(out, cases, 8, 1.2, 0.1);
  reads_row(out, cases, 16, 2.0, 0.2);
}

// Each alone. Only the last step gains, of which there is one however many GPUs there are.
void near_memory_rows(HeadlineRows& out, std::vector<MainCase> const& cases) {
  auto const times = [&](int gpus) {
    std::vector<double> ratios;
    for (auto const& c : cases)
      if (c.runs->tensor_parallel == gpus)
        ratios.push_back(
            over(c.runs->collectives.reduce_scatter.end, c.runs->collectives.reduce_scatter_near_memory.end));
    return spread_of(ratios);
  };
  auto const [of_8, of_16] = std::pair{times(8), times(16)};
  if (of_8.count == 0 || of_16.count == 0) return;
  auto const [few, many] = std::pair{100 * (of_8.mean - 1), 100 * (of_16.mean - 1)};
  out.add("RS near memory, 8 GPUs, % faster", few, 7, 2, {at_most("16 GPUs", many, few / 1.5)});
  out.add("RS near memory, 16 GPUs, % faster", many, 3, 2, {at_least("8 GPUs", few, 1.5 * many)});
}

// 7 % of a potential speed-up; of slowdowns points that leave no room for none.
void sm_split_rows(HeadlineRows& out, OverlapStudy const& study) {
  struct Means {
    int gemm_sms = 0, collective_sms = 0;
    std::vector<double> potential, ideal, gemm, all_reduce, whole_all_reduce, whole_gemm;
    std::string split() const { return fmt::format("{}-{} SMs", gemm_sms, collective_sms); }
  };
  Means few, many;
  for (auto const& s : study.sm_splits) {
    if (s.model != "Mega-GPT-2" && s.model != "T-NLG" && study.models == t3_models()) continue;
    auto& of = s.collective_sms * 7 < s.gemm_sms ? few : many;
    of.gemm_sms = s.gemm_sms;
    of.collective_sms = s.collective_sms;
    auto const both = s.gemm_whole + s.all_reduce_whole;
    of.potential.push_back(s.potential());
    of.ideal.push_back(over(both, std::max(s.gemm_whole, s.all_reduce_whole)));
    of.gemm.push_back(over(s.gemm, s.gemm_whole));
    of.all_reduce.push_back(over(s.all_reduce, s.all_reduce_whole));
    of.whole_all_reduce.push_back(over(both, std::max(s.gemm, s.all_reduce_whole)));
    of.whole_gemm.push_back(over(both, std::max(s.gemm_whole, s.all_reduce)));
  }
  if (few.potential.empty() || many.potential.empty()) return;
  auto const mean = [](std::vector<double> const& values) { return spread_of(values).mean; };
  auto const slower = [&](std::vector<double> const& values) { return 100 * (mean(values) - 1); };
  auto const on = [](char const* what, int sms) {
    return fmt::format("figure 6, {} on {} SMs, % slower", what, sms);
  };
  out.add("figure 6, ideal", mean(few.ideal), 1.67, 0.07 * 1.67,
          {at_most(many.split(), mean(many.potential), mean(few.ideal) / 1.07)});
  out.add("figure 6, " + few.split(), mean(few.potential), 1.18, 0.07 * 1.18,
          {at_least("all-reduce on all SMs", mean(few.whole_all_reduce), 1.07 * mean(few.potential))});
  out.add("figure 6, " + many.split(), mean(many.potential), 1.49, 0.07 * 1.49,
          {at_least("GEMM on all SMs", mean(many.whole_gemm), 1.07 * mean(many.potential))});
  auto const [lost_few, lost_many] = std::pair{slower(few.all_reduce), slower(many.all_reduce)};
  out.add(on("all-reduce", few.collective_sms), lost_few, 41, 7,
          {at_most(many.split(), lost_many, lost_few - 7)});
  out.add(on("all-reduce", many.collective_sms), lost_many, 7, 3,
          {at_least(few.split(), lost_few, lost_many + 7)});
  out.add(on("GEMM", many.gemm_sms), slower(many.gemm), 21, 4,
          {at_most(few.split(), slower(few.gemm), slower(many.gemm) - 4)});
}

// Figure 20 has no numbers: of all models, larger layers gain more and smaller ones less.
void twice_the_sms_rows(HeadlineRows& out, OverlapStudy const& study) {
  struct Count {
    double cases = 0, as_stated = 0, ideal = 0;
  };
  Count larger, smaller;
  for (auto const& twice : study.twice_the_sms)
    for (auto const& once : study.sub_layers) {
      if (once.model != twice.model || once.tensor_parallel != twice.tensor_parallel ||
          once.layer != twice.layer)
        continue;
      bool const more = once.layer == SubLayer::fc2;
      auto& count = more ? larger : smaller;
      auto const as_stated = [&](double before, double after) {
        return more ? after > before : after < before;
      };
      count.cases += 1;
      count.as_stated += as_stated(once.speedup(once.fused_mca()), twice.speedup(twice.fused_mca()));
      count.ideal += as_stated(once.speedup(once.ideal()), twice.speedup(twice.ideal()));
    }
  if (smaller.cases == 0 || larger.cases == 0) return;
  auto const row = [&](char const* name, Count const& count) {
    out.add(name, 100 * count.as_stated / count.cases, 100, 0,
            {at_least("ideal overlap, the balance alone", 100 * count.ideal / count.cases, 100)});
  };
  row("twice the SMs: OP gains less, % of cases", smaller);
  row("twice the SMs: FC-2 gains more, % of cases", larger);
}

}  // namespace tessera::overlap
