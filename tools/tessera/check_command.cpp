// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>

#include "check_workload.hpp"
#include "commands.hpp"
#include "tessera/check/check.hpp"
#include "tessera/report/report.hpp"
#include "unlaunched.hpp"

namespace tessera::cli {
namespace {

struct CheckArguments {
  WorkloadOptions workload;
  std::string architecture = "sm_90";
  bool architecture_is_given = false;
};

Expected<CheckedPipeline> checked_of(SizedWorkload const& sized, std::string const& architecture) {
  if (sized.checked) return *sized.checked;
  auto const pipeline = tiled(sized.workload, architecture);
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  return check(*pipeline);
}

int run(Session const& session, CheckArguments const& arguments) {
  auto const workloads = load_workloads(arguments.workload);
  if (!workloads) return session.fail(workloads.error());
  std::vector<std::string> found;
  for (auto const& sized : *workloads) {
    if (arguments.architecture_is_given && !std::holds_alternative<OperatorGraph>(sized.workload))
      return session.fail(complaint("E0906",
                                    fmt::format("--arch chooses kernels for operators, and {} is of tiles",
                                                arguments.workload.workload),
                                    "leave --arch out"));
    auto const checked = checked_of(sized, arguments.architecture);
    if (!checked) return session.fail(checked.error());
    found.push_back(session.json ? check_json(*checked) : check_text(*checked));
  }
  session.print(session.json ? several_json("tessera.checks/1", "checks", found)
                             : fmt::format("{}", fmt::join(found, "\n")));
  if (auto const note = unlaunched_note(*workloads); !note.empty()) session.say(note);
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
  command->callback([arguments, command, &session, &action] {
    arguments->architecture_is_given = command->count("--arch") > 0;
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
