// SPDX-License-Identifier: Apache-2.0
#include "planned_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "companion.hpp"
#include "files.hpp"
#include "gpu_shape.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

/// What can be launched; tile shapes that are only published cannot.
Registry compiled_kernels() {
  Registry compiled;
  for (auto const& kernel : shipped_kernels().kernels())
    if (kernel.family != "published") (void)compiled.add(kernel);
  return compiled;
}

Expected<Plan> planned(Workload const& workload, MachineProfile const& machine) {
  Pricer const price = [&](Plan const& candidate) { return simulate(candidate, machine, {false}); };
  if (auto const* graph = std::get_if<OperatorGraph>(&workload))
    return choose(*graph, compiled_kernels(), machine, price);
  auto const checked = check(std::get<Pipeline>(workload));
  if (!checked) return tl::make_unexpected(checked.error());
  return choose(*checked, machine, price);
}

}  // namespace

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
    auto const plan = planned(size.workload, *machine);
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
