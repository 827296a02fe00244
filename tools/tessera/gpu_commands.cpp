// SPDX-License-Identifier: Apache-2.0
// tune and run: what a model's block takes on this machine's GPU. The work is tessera-gpu's.
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "companion.hpp"

namespace tessera::cli {
namespace {

struct GpuArguments {
  WorkloadOptions workload;
  std::string cache;
  bool quick = false;
};

constexpr char const* k_usual_tokens = "1,16,64,128,256,512,768,1024,1536,2048,4096";

/// The options that both commands have.
void add_options(CLI::App& command, GpuArguments& arguments) {
  command
      .add_option("model", arguments.workload.workload,
                  "A shipped model (see tessera workloads) or its config.json; - is standard input")
      ->required();
  command.add_option("--block", arguments.workload.block,
                     "mlp (default): the only block with kernels so far");
  command.add_option("--tokens", arguments.workload.tokens,
                     std::string("Numbers of tokens (default ") + k_usual_tokens + ")");
  command.add_option("--tp", arguments.workload.tensor_parallel,
                     "Tensor-parallel degree: one GPU's share (default 1)");
  command.add_option("--dtype", arguments.workload.data_type,
                     "bf16 (default) or fp16, whatever the config says");
  add_output(
      command, "--cache", arguments.cache,
      "The tuning cache (default: TESSERA_TUNE_CACHE, else tessera/tune.json in XDG_CACHE_HOME or ~/.cache)");
}

/// What the two GEMMs are, as options of tessera-gpu.
Expected<std::vector<std::string>> shape_of(WorkloadOptions const& options) {
  auto const block = options.block.value_or("mlp");
  auto const unfit = [&](std::string const& what) {
    return tl::make_unexpected(complaint("E0906", fmt::format("there are no kernels for {}", what),
                                         "--block mlp of a model is what there is"));
  };
  if (block != "mlp") return unfit("--block " + block);
  auto const source = load_workload_text(options.workload);
  if (!source) return tl::make_unexpected(source.error());
  if (source->summary.kind != DocumentKind::hf_config) return unfit(options.workload);
  auto const sized = load_workloads(options);
  if (!sized) return tl::make_unexpected(sized.error());
  auto const* graph = std::get_if<OperatorGraph>(&sized->front().workload);
  if (graph == nullptr || graph->operators.size() != 2) return unfit(options.workload);
  auto const& up = graph->operators.front();
  bool const gelu = up.epilogue == Epilogue::gelu;
  return std::vector<std::string>{
      "--model", std::to_string(up.k),     "--hidden", std::to_string(gelu ? up.n : up.n / 2),
      "--form",  gelu ? "gelu" : "swiglu", "--type",   options.data_type.value_or("bf16")};
}

int run(Session const& session, std::string const& command, std::string const& verb, GpuArguments arguments) {
  auto& workload = arguments.workload;
  if (!workload.tokens) workload.tokens = k_usual_tokens;
  if (!workload.data_type) workload.data_type = "bf16";
  auto const shape = shape_of(workload);
  if (!shape) return session.fail(shape.error());
  std::vector<std::string> words{verb, "--name", workload.workload, "--tokens", *workload.tokens};
  words.insert(words.end(), shape->begin(), shape->end());
  if (!arguments.cache.empty()) words.insert(words.end(), {"--cache", arguments.cache});
  if (arguments.quick) words.push_back("--quick");
  return run_companion(session, command, "tessera-gpu", words);
}

}  // namespace

void add_tune(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("tune", "Measure which kernels are fastest on this GPU, and remember it");
  auto arguments = std::make_shared<GpuArguments>();
  add_options(*command, *arguments);
  command->add_flag("--quick", arguments->quick, "Fewer samples and finalists: seconds instead of a minute");
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
  auto* command = app.add_subcommand("run", "Run a model's block on this GPU and check what it computes");
  auto arguments = std::make_shared<GpuArguments>();
  add_options(*command, *arguments);
  command->footer(
      "Takes what tessera tune has stored, or cuBLASLt where nothing is, runs it on random operands with "
      "poisoned\n"
      "outputs and compares the result with plain fp32 arithmetic. Exit code 1 if one is wrong. Needs a "
      "Hopper GPU.\n\n"
      "Examples:\n"
      "  tessera run llama-65b --block mlp --tp 8 --tokens 1,768");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, "tessera run", "check", *arguments); };
  });
}

}  // namespace tessera::cli
