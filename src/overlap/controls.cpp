// SPDX-License-Identifier: Apache-2.0
// The runs that headlines are held to: one mechanism switched off, everything else as in the study.
#include <tuple>

#include "overlap/study_parts.hpp"

namespace tessera::overlap {
namespace {

/// The first reason against any of the runs; its times otherwise.
class Ends {
 public:
  std::int64_t operator()(Expected<OverlapRun> const& run) {
    if (!run && failed.empty()) failed = run.error();
    return run ? run->end : 0;
  }
  Diagnostics failed;
};

Expected<ControlRuns> control_runs(OverlapStudySettings const& settings, SubLayerRuns const& runs) {
  auto const& [machine, options] = std::tie(settings.machine, settings.options);
  auto const setup = fused_setup(runs.problem, runs.tensor_parallel, options);
  if (!setup) return tl::make_unexpected(setup.error());
  ControlRuns out;
  Ends end;
  auto run = options.run;
  auto const fused = [&] {
    return end(run_gemm(machine, runs.problem, options.kernel, setup->fused, false, run));
  };
  run.arbitration = Arbitration::compute_first;
  out.compute_first = fused();
  auto endless = machine;
  endless.overlap->l2_to_dram_entries = 0;
  out.endless_queue = end(run_gemm(endless, runs.problem, options.kernel, setup->fused, false, options.run));
  if (settings.sweep) {
    auto const& h = *machine.overlap;
    run.arbitration = Arbitration::communication_aware;
    for (int const threshold : {h.threshold_high, h.threshold_medium, h.threshold_low, h.queue_entries}) {
      run.fixed_threshold = threshold;
      out.thresholds.push_back(fused());
    }
  }
  auto const past = run_gemm(machine, runs.problem, options.kernel, {setup->alone}, false, options.run);
  end(past);
  if (!end.failed.empty()) return tl::make_unexpected(end.failed);
  out.gemm_reads_past_l2 = bytes_of(*past, Traffic::gemm_read);
  return out;
}

}  // namespace

Expected<std::vector<ControlRuns>> controls(OverlapStudySettings const& settings,
                                            std::vector<SubLayerRuns> const& sub_layers) {
  std::vector<SubLayerRuns const*> main;
  for (auto const& runs : sub_layers)
    if (is_main(runs)) main.push_back(&runs);
  std::vector<Expected<ControlRuns>> out(main.size(), ControlRuns{});
  for_all(settings.parallel, main.size(), [&](std::size_t i) { out[i] = control_runs(settings, *main[i]); });
  auto all = collected(out);
  if (!all) return all;
  // One collective for all sub-layers of a model on so many GPUs: their outputs are equally large.
  auto fast = settings.machine;
  fast.overlap->link_gbps *= 2;
  for (std::size_t i = 0; i < main.size(); ++i) {
    auto& control = (*all)[i];
    if (i > 0 && main[i - 1]->model == main[i]->model &&
        main[i - 1]->tensor_parallel == main[i]->tensor_parallel) {
      control.fast_reduce_scatter = (*all)[i - 1].fast_reduce_scatter;
      control.fast_all_gather = (*all)[i - 1].fast_all_gather;
      continue;
    }
    Ends end;
    CollectiveProblem problem;
    problem.gpus = main[i]->tensor_parallel;
    problem.bytes = static_cast<double>(main[i]->problem.m * main[i]->problem.n * 2);
    problem.bytes_per_thread = settings.options.bytes_per_thread;
    control.fast_reduce_scatter = end(run_collective(fast, problem, settings.options.run));
    problem.collective = Collective::all_gather;
    control.fast_all_gather = end(run_collective(fast, problem, settings.options.run));
    if (!end.failed.empty()) return tl::make_unexpected(end.failed);
  }
  return all;
}

}  // namespace tessera::overlap
