// SPDX-License-Identifier: Apache-2.0
#include "gpu_shape.hpp"

#include <fmt/format.h>

#include "session.hpp"

namespace tessera::cli {
namespace {

constexpr char const* k_usual_tokens = "1,16,64,128,256,512,768,1024,1536,2048,4096";

}  // namespace

char const* usual_tokens() { return k_usual_tokens; }

void add_gpu_options(CLI::App& command, WorkloadOptions& options) {
  command
      .add_option("model", options.workload,
                  "A shipped model (see tessera workloads) or its config.json; - is standard input")
      ->required();
  command.add_option("--block", options.block, "mlp (default): the only block with kernels so far");
  command.add_option("--tokens", options.tokens,
                     std::string("Numbers of tokens (default ") + k_usual_tokens + ")");
  command.add_option("--tp", options.tensor_parallel, "Tensor-parallel degree: one GPU's share (default 1)");
  command.add_option("--dtype", options.data_type, "bf16 (default) or fp16, whatever the config says");
}

Expected<std::vector<std::string>> gpu_words(std::string const& verb, WorkloadOptions options) {
  if (!options.tokens) options.tokens = k_usual_tokens;
  if (!options.data_type) options.data_type = "bf16";
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
  std::string tokens;
  for (auto const& one : *sized) tokens += (tokens.empty() ? "" : ",") + one.size;
  return std::vector<std::string>{verb,
                                  "--name",
                                  options.workload,
                                  "--tokens",
                                  tokens,
                                  "--model",
                                  std::to_string(up.k),
                                  "--hidden",
                                  std::to_string(gelu ? up.n : up.n / 2),
                                  "--form",
                                  gelu ? "gelu" : "swiglu",
                                  "--type",
                                  *options.data_type};
}

}  // namespace tessera::cli
