// SPDX-License-Identifier: Apache-2.0
#include "study_command.hpp"

#include <atomic>
#include <thread>

#include "files.hpp"
#include "load.hpp"
#include "tessera/overlap/study.hpp"
#include "tessera/report/study.hpp"

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

}  // namespace

int run_study(Session const& session, StudyArguments const& arguments) {
  auto const machine = load_machine(arguments.machine.empty() ? arguments.study : arguments.machine);
  if (!machine) return session.fail(machine.error());
  OverlapStudySettings settings{*machine, t3_models(), {}, true, on_all_cores};
  settings.options.kernel = default_gemm_kernel(*machine);
  auto const study = study_overlap(settings);
  if (!study) return session.fail(study.error());
  auto const document = study_document(*study);
  std::vector<OutputFile> files;
  if (!arguments.output.empty()) files.push_back({arguments.output, study_json(document)});
  if (!arguments.csv.empty()) files.push_back({arguments.csv, study_csv(document)});
  if (!arguments.html.empty()) files.push_back({arguments.html, study_html(document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  session.print(session.json ? study_json(document) : study_text(document, {"headlines", "range"}));
  return k_ok;
}

}  // namespace tessera::cli
