// SPDX-License-Identifier: Apache-2.0
#include "planned_run.hpp"

#include <algorithm>

#include "companion.hpp"
#include "files.hpp"
#include "plan_workload.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera::cli {

bool is_plan(std::string const& path) {
  if (path == "-") return false;  // can be read once
  auto const text = load_workload_text(path);
  return text && text->summary.kind == DocumentKind::plan;
}

int run_plan(Session const& session, std::string const& path, GpuArguments const& arguments) {
  if (auto const fit = check_outputs({arguments.timeline, arguments.html}); !fit)
    return session.fail(fit.error());
  std::vector<std::string> words{"run", path};
  if (arguments.workload.prompts) words.insert(words.end(), {"--prompts", *arguments.workload.prompts});
  if (arguments.quick) words.push_back("--quick");
  auto const timeline = timeline_words(arguments);
  words.insert(words.end(), timeline.begin(), timeline.end());
  return run_companion(session, "tessera run", "tessera-gpu", words);
}

int run_planned(Session const& session, GpuArguments const& arguments, std::string const& machine_name) {
  auto const machine = load_machine(machine_name);
  if (!machine) return session.fail(machine.error());
  auto const sizes = gpu_workloads(arguments.workload, Wanted::launched);
  if (!sizes) return session.fail(sizes.error());
  if (has_unfused(*sizes))
    return session.fail(complaint("E0906", "--planned is not for attention as separate kernels",
                                  "leave --planned out: it runs as planned, too"));
  if (auto const one = one_timeline(arguments, sizes->size()); !one) return session.fail(one.error());
  int answer = k_ok;
  for (auto const& size : *sizes) {
    auto const plan = plan_workload(size.workload, *machine);
    if (!plan) return session.fail(plan.error());
    TemporaryFiles files;
    if (auto const written = files.add(print_plan(*plan)); !written) return session.fail(written.error());
    int const one = run_plan(session, files.paths().front(), arguments);
    if (one > k_no) return one;
    answer = std::max(answer, one);
  }
  return answer;
}

}  // namespace tessera::cli
