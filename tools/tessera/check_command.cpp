// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "tessera/check/check.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {
namespace {

struct CheckArguments {
  WorkloadOptions workload;
  std::string architecture = "sm_90";
};

/// An operator graph, cut by the first kernel of the catalogue that fits each operator: what is checked are
/// its dependences, which every tile shape must get right.
Expected<Pipeline> tiled(Workload const& workload, std::string const& architecture) {
  if (auto const* pipeline = std::get_if<Pipeline>(&workload)) return *pipeline;
  auto const& graph = std::get<OperatorGraph>(workload);
  auto const catalogue = shipped_kernels().for_architecture(architecture);
  if (catalogue.empty())
    return tl::make_unexpected(complaint(
        "E0911", fmt::format("there are no kernels for architecture \"{}\"", architecture),
        did_you_mean(architecture, {"sm_70", "sm_80", "sm_90"}), {"known: sm_70, sm_80 and sm_90"}));
  std::vector<TileChoice> choices;
  for (auto const& op : graph.operators)
    for (auto const& kernel : catalogue)
      if (kernel.kind == op.kind && find_form(kernel, op.epilogue, graph.type) != nullptr) {
        choices.push_back({kernel, 1});
        break;
      }
  return tile(graph, choices);
}

int run(Session const& session, CheckArguments const& arguments) {
  auto const workloads = load_workloads(arguments.workload);
  if (!workloads) return session.fail(workloads.error());
  std::vector<std::string> found;
  for (auto const& sized : *workloads) {
    auto const pipeline = tiled(sized.workload, arguments.architecture);
    if (!pipeline) return session.fail(pipeline.error());
    auto const checked = check(*pipeline);
    if (!checked) return session.fail(checked.error());
    found.push_back(session.json ? check_json(*checked) : check_text(*checked));
  }
  session.print(session.json ? several_json("tessera.checks/1", "checks", found)
                             : fmt::format("{}", fmt::join(found, "\n")));
  return k_ok;
}

}  // namespace

void add_check(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand(
      "check", "Is a workload what its author meant? Bounds, cycles, coverage, buffer reuse");
  auto arguments = std::make_shared<CheckArguments>();
  add_workload_options(*command, arguments->workload);
  command
      ->add_option("--arch", arguments->architecture,
                   "Whose kernels cut a model's operators into tiles: sm_70, sm_80 or sm_90")
      ->capture_default_str();
  command->footer(
      "Prints the exact counts of every dependence, what is never read, and which buffers are reused. A "
      "mistake is\n"
      "shown with the line of the file and the first tile that shows it; then the exit code is 1.\n\n"
      "Examples:\n"
      "  tessera check pipeline.json\n"
      "  tessera check llama-65b --block attention --tokens 768 --tp 8\n"
      "  tessera check pipeline.json --json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
