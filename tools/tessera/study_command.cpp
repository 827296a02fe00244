// SPDX-License-Identifier: Apache-2.0
#include "study_command.hpp"

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "files.hpp"
#include "load.hpp"
#include "tessera/overlap/study.hpp"

namespace tessera::cli {
namespace {

void on_all_cores(std::size_t count, std::function<void(std::size_t)> const& job) {
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < std::max(1U, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  work();
}

std::string table(OverlapStudy const& study) {
  std::string text =
      fmt::format("{:11} {:>3} {:5} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>8}\n", "model", "tp",
                  "layer", "GEMM us", "RS us", "AG us", "ideal", "+NMC", "T3", "T3-MCA", "traffic");
  for (auto const& runs : study.sub_layers)
    text += fmt::format(
        "{:11} {:>3} {:5} {:9.1f} {:9.1f} {:9.1f} {:7.3f} {:7.3f} {:7.3f} {:7.3f} {:+7.1f}%\n", runs.model,
        runs.tensor_parallel, to_text(runs.layer), static_cast<double>(runs.gemm.end) * 1e-6,
        static_cast<double>(runs.reduce_scatter.end) * 1e-6, static_cast<double>(runs.all_gather.end) * 1e-6,
        runs.speedup(runs.ideal()), runs.speedup(runs.ideal_near_memory()), runs.speedup(runs.fused()),
        runs.speedup(runs.fused_mca()), 100 * (moved_fused(runs) / moved_sequential(runs) - 1));
  text += fmt::format("\n{:52} {:>8} {:>8}\n", "", "here", "paper");
  for (auto const& line : headlines(study))
    text += fmt::format("{:52} {:8.3f} {:8.2f}  {}\n", line.name, line.value, line.paper,
                        line.reproduced() ? "reproduced" : "missed");
  return text;
}

}  // namespace

int run_study(Session const& session, StudyArguments const& arguments) {
  auto const machine = load_machine(arguments.machine.empty() ? arguments.study : arguments.machine);
  if (!machine) return session.fail(machine.error());
  OverlapStudySettings settings{*machine, t3_models(), {}, on_all_cores};
  settings.options.kernel = default_gemm_kernel(*machine);
  auto const study = study_overlap(settings);
  if (!study) return session.fail(study.error());
  session.print(table(*study));
  return k_ok;
}

}  // namespace tessera::cli
