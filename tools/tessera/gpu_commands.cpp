// SPDX-License-Identifier: Apache-2.0
// tune and run: what a model's block takes on this machine's GPU. The work is tessera-gpu's.
#include <memory>

#include "commands.hpp"
#include "companion.hpp"
#include "gpu_shape.hpp"
#include "planned_run.hpp"

namespace tessera::cli {
namespace {

struct GpuArguments {
  WorkloadOptions workload;
  std::string cache;
  std::string load;
  bool quick = false;
  bool verbose = false;
  bool planned = false;
  std::string machine = "h200";
};

/// The options that both commands have.
void add_options(CLI::App& command, GpuArguments& arguments) {
  add_gpu_options(command, arguments.workload);
  add_output(
      command, "--cache", arguments.cache,
      "The tuning cache (default: TESSERA_TUNE_CACHE, else tessera/tune.json in XDG_CACHE_HOME or ~/.cache)");
}

int run(Session const& session, std::string const& command, std::string const& verb, GpuArguments arguments) {
  auto words = gpu_words(verb, arguments.workload);
  if (!words) return session.fail(words.error());
  if (!arguments.cache.empty()) words->insert(words->end(), {"--cache", arguments.cache});
  if (!arguments.load.empty()) words->insert(words->end(), {"--for", arguments.load});
  if (arguments.quick) words->push_back("--quick");
  if (arguments.verbose) words->push_back("--verbose");
  return run_companion(session, command, "tessera-gpu", *words);
}

}  // namespace

void add_tune(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("tune", "Measure which kernels are fastest on this GPU, and remember it");
  auto arguments = std::make_shared<GpuArguments>();
  add_options(*command, *arguments);
  command
      ->add_option("--for", arguments->load,
                   "steady: work comes back to back, hot times count; bursts: with pauses, cool times count; "
                   "any (default): both")
      ->check(CLI::IsMember({"any", "steady", "bursts"}))
      ->option_text("any|steady|bursts");
  command->add_flag("--quick", arguments->quick, "Fewer samples and finalists: seconds instead of a minute");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is tried, a line each");
  command->footer(
      "For each number of tokens: tries all kernels, alone and in pairs, compares the finalists' results "
      "with\n"
      "plain fp32 arithmetic and measures them in turns, back to back (hot) and with pauses (cool). cuBLASLt "
      "in\n"
      "stream order is always among them; what does not beat it beyond the noise is not taken. The "
      "library's\n"
      "mlp() reads the result. Needs a Hopper GPU.\n\n"
      "Examples:\n"
      "  tessera tune llama-65b --block mlp --tp 8\n"
      "  tessera tune gpt-3-145b --tp 8 --tokens 1,768 --quick --cache tune.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, "tessera tune", "tune", *arguments); };
  });
}

void add_run(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("run", "Run a plan or a model's block on this GPU and check what it computes");
  auto arguments = std::make_shared<GpuArguments>();
  add_options(*command, *arguments);
  command->add_flag("--planned", arguments->planned,
                    "Take what the plan of each size says, not what was tuned");
  command
      ->add_option("--machine", arguments->machine,
                   "With --planned: a shipped profile (see tessera machines) or a profile's file")
      ->capture_default_str();
  command->footer(
      "Takes what tessera tune has stored, or cuBLASLt where nothing is, runs it on random operands with "
      "poisoned\n"
      "outputs and compares the result with plain fp32 arithmetic. Exit code 1 if one is wrong. Needs a "
      "Hopper GPU.\n\n"
      "Given a plan (tessera plan -o) instead of a model, runs that plan of registered kernels in the same "
      "way; what\n"
      "a kernel cannot do of what the plan says is refused.\n\n"
      "Examples:\n"
      "  tessera run llama-65b --block mlp --tp 8 --tokens 1,768\n"
      "  tessera run gpt-3-145b --tp 8 --tokens 768 --planned\n"
      "  tessera run plan.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] {
      if (is_plan(arguments->workload.workload)) return run_plan(session, arguments->workload.workload);
      return arguments->planned ? run_planned(session, arguments->workload, arguments->machine)
                                : run(session, "tessera run", "check", *arguments);
    };
  });
}

}  // namespace tessera::cli
