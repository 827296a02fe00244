// SPDX-License-Identifier: Apache-2.0
#include "planned_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "companion.hpp"
#include "files.hpp"
#include "gpu_shape.hpp"
#include "plan_workload.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera::cli {

bool is_plan(std::string const& path) {
  if (path == "-") return false;  // can be read once
  auto const text = load_workload_text(path);
  return text && text->summary.kind == DocumentKind::plan;
}

int run_plan(Session const& session, std::string const& path) {
  return run_companion(session, "tessera run", "tessera-gpu", {"run-plan", path});
}

int run_planned(Session const& session, WorkloadOptions options, std::string const& machine_name) {
  auto const machine = load_machine(machine_name);
  if (!machine) return session.fail(machine.error());
  if (!options.tokens) options.tokens = usual_tokens();
  if (!options.data_type) options.data_type = "bf16";
  auto const sizes = load_workloads(options);
  if (!sizes) return session.fail(sizes.error());
  int answer = k_ok;
  for (auto const& size : *sizes) {
    auto const plan = plan_workload(size.workload, *machine);
    if (!plan) return session.fail(plan.error());
    auto const path =
        (std::filesystem::temp_directory_path() / fmt::format("tessera-{}.json", getpid())).string();
    if (auto const written = write_file(path, print_plan(*plan)); !written)
      return session.fail(written.error());
    int const one = run_plan(session, path);
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    if (one > k_no) return one;
    answer = std::max(answer, one);
  }
  return answer;
}

}  // namespace tessera::cli
