// SPDX-License-Identifier: Apache-2.0
#include "gpu_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"
#include "odd_sizes.hpp"
#include "tessera/shipped_kernels.hpp"
#include "unlaunched.hpp"

namespace tessera::cli {
namespace {

constexpr char const* k_usual_tokens = "1,16,64,128,256,512,768,1024,1536,2048,4096";

bool is_part_of_layer(Operator const& op) {
  return op.kind == OperatorKind::attention || op.kind == OperatorKind::norm ||
         op.kind == OperatorKind::turn_heads || op.epilogue == Epilogue::residual;
}

bool can_be_launched(OperatorGraph const& graph, Operator const& op) {
  auto const& kernels = shipped_kernels().kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](KernelEntry const& kernel) {
    return kernel.family != "published" && op.batch == 1 && computes(kernel, graph, op);
  });
}

Diagnostics no_kernels(Operator const& op, ElementType type, DocumentKind kind, std::string const& name) {
  bool const model = kind == DocumentKind::hf_config;
  auto found =
      complaint("E0906",
                fmt::format("there are no kernels for {} of {}, a {}{} of {}", op.name, name,
                            op.batch > 1 ? "batched " : "", to_text(op.kind), to_text(type)),
                model ? "plain matrix products of bf16 and fp16 can be launched: --block mlp"
                : op.kind == OperatorKind::conv2d
                    ? "a whole network runs, and is tuned, by kernels of its own: tessera run resnet-38 "
                      "--images 4 --tune (docs/convolutions.md)"
                    : "plain matrix products of bf16 and fp16 can be launched; others need a kernel "
                      "of your own (docs/extending.md)");
  if (kind == DocumentKind::workload) found.front().where = op.where;
  return found;
}

/// What no plan of this can be launched for: E0906 with the operator and what it has.
Diagnostics problem_of(OperatorGraph const& graph, Operator const& op, DocumentKind kind,
                       std::string const& name, Wanted wanted) {
  if (!can_be_launched(graph, op)) return no_kernels(op, graph.type, kind, name);
  Diagnostics found;
  if (wanted == Wanted::benched && is_part_of_layer(op))
    found = complaint(
        "E0906",
        fmt::format("{} of {} is not measured beside peers: there are none for {}", op.name, name,
                    op.epilogue == Epilogue::residual ? "a product that adds a residual" : to_text(op.kind)),
        "tessera tune measures its plans beside the library's; its products alone: --block mlp");
  else if (op.kind == OperatorKind::attention)
    if (auto const why = unlaunched(graph, op))
      found = complaint("E0906", fmt::format("no plan launches {} of {} with {}", op.name, name, why->what),
                        why->way_out);
  if (kind == DocumentKind::workload && !found.empty()) found.front().where = op.where;
  return found;
}

/// Attention as separate kernels has kernels and plans of its own, which are run.
Expected<void> can_be_run_unfused(OperatorGraph const& graph, std::string const& name, Wanted wanted) {
  if (wanted == Wanted::launched) return unfused_attention::check_unfused(graph);
  return tl::make_unexpected(
      complaint("E0906",
                fmt::format("attention of {} as separate kernels is not {}", name,
                            wanted == Wanted::tuned ? "tuned" : "measured beside peers"),
                "tessera run measures it in stream order, with StridedSync and as planned; in one kernel: "
                "--block fused_attention"));
}

}  // namespace

void add_gpu_options(CLI::App& command, WorkloadOptions& options) {
  add_workload_options(command, options);
  command.get_option("workload")
      ->description(
          "A shipped name (see tessera workloads), or a file: a model's config.json, or a\n"
          "tessera.workload/1 description; - is standard input");
  command.get_option("--tokens")
      ->description(std::string("Numbers of tokens (default ") + k_usual_tokens + ")");
  command.get_option("--dtype")->description("bf16 (default) or fp16, whatever the config says");
}

Expected<std::vector<SizedWorkload>> gpu_workloads(WorkloadOptions options, Wanted wanted) {
  auto const source = load_workload_text(options.workload);
  if (!source) return tl::make_unexpected(source.error());
  if (source->summary.kind == DocumentKind::hf_config) {
    if (!options.tokens && !options.prompts) options.tokens = k_usual_tokens;
    if (!options.data_type) options.data_type = "bf16";
  }
  auto sized = load_workloads(options);
  if (!sized) return sized;
  for (auto const& one : *sized) {
    auto const* graph = std::get_if<OperatorGraph>(&one.workload);
    if (graph == nullptr)
      return tl::make_unexpected(complaint(
          "E0906", fmt::format("{} says which tiles there are, and not which operators", options.workload),
          "describe it by operators; or run its kernels by run/chain.hpp and tune them by tune/tune.hpp"));
    if (unfused_attention::is_unfused(*graph)) {
      if (auto const fine = can_be_run_unfused(*graph, options.workload, wanted); !fine)
        return tl::make_unexpected(fine.error());
    } else {
      for (auto const& op : graph->operators)
        if (auto problem = problem_of(*graph, op, source->summary.kind, options.workload, wanted);
            !problem.empty())
          return tl::make_unexpected(std::move(problem));
    }
    if (auto odd = odd_sizes(*graph, Severity::error); !odd.empty())
      return tl::make_unexpected(std::move(odd));
  }
  return sized;
}

bool has_unfused(std::vector<SizedWorkload> const& sized) {
  return std::any_of(sized.begin(), sized.end(), [](SizedWorkload const& one) {
    auto const* graph = std::get_if<OperatorGraph>(&one.workload);
    return graph != nullptr && unfused_attention::is_unfused(*graph);
  });
}

Diagnostics unused_gpu_options(GpuArguments const& arguments, std::string const& run) {
  Diagnostics found;
  auto const& w = arguments.workload;
  for (auto const& [option, given] : {std::pair{"--block", w.block.has_value()},
                                      {"--tokens", w.tokens.has_value()},
                                      {"--sequences", w.sequences.has_value()},
                                      {"--prompts", w.prompts.has_value()},
                                      {"--cached", w.cached.has_value()},
                                      {"--tp", w.tensor_parallel.has_value()},
                                      {"--dtype", w.data_type.has_value()},
                                      {"--routing", w.routing.has_value()},
                                      {"--layers", w.layers.has_value()},
                                      {"--mask", w.mask.has_value()},
                                      {"--layer", w.layer.has_value()},
                                      {"--images", w.images.has_value()},
                                      {"--iterations", w.iterations.has_value()},
                                      {"--cache", !arguments.cache.empty()},
                                      {"--quick", arguments.quick}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is not for {}", option, run),
                           fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

std::vector<std::string> timeline_words(GpuArguments const& arguments) {
  std::vector<std::string> words;
  if (!arguments.timeline.empty()) words.insert(words.end(), {"--timeline", arguments.timeline});
  if (!arguments.html.empty()) words.insert(words.end(), {"--html", arguments.html});
  return words;
}

Expected<void> one_timeline(GpuArguments const& arguments, std::size_t sizes) {
  if (sizes == 1 || (arguments.timeline.empty() && arguments.html.empty())) return {};
  return tl::make_unexpected(
      complaint("E0906",
                fmt::format("{} is of one run, and {} sizes are run",
                            arguments.timeline.empty() ? "--html" : "--timeline", sizes),
                "give one size (--tokens 768), or one plan"));
}

int run_sizes(Session const& session, std::string const& command, std::string const& program,
              std::string const& verb, GpuArguments const& arguments, std::vector<std::string> const& more) {
  auto const sized = gpu_workloads(arguments.workload, verb == "bench"  ? Wanted::benched
                                                       : verb == "tune" ? Wanted::tuned
                                                                        : Wanted::launched);
  if (!sized) return session.fail(sized.error());
  if (has_unfused(*sized) && !(arguments.timeline.empty() && arguments.html.empty()))
    return session.fail(complaint("E0906", "timelines are not taken of attention as separate kernels",
                                  "leave --timeline and --html out"));
  if (auto const one = one_timeline(arguments, sized->size()); !one) return session.fail(one.error());
  if (auto const fit = check_outputs({arguments.timeline, arguments.html}); !fit)
    return session.fail(fit.error());
  TemporaryFiles files;
  for (auto const& one : *sized)
    if (auto const written = files.add(print_workload(one.workload)); !written)
      return session.fail(written.error());
  std::vector<std::string> words{verb, "--name", arguments.workload.workload};
  words.insert(words.end(), files.paths().begin(), files.paths().end());
  if (!arguments.cache.empty()) words.insert(words.end(), {"--cache", arguments.cache});
  words.insert(words.end(), more.begin(), more.end());
  auto const timeline = timeline_words(arguments);
  words.insert(words.end(), timeline.begin(), timeline.end());
  if (arguments.quick) words.push_back("--quick");
  if (arguments.verbose) words.push_back("--verbose");
  return run_companion(session, command, program, words);
}

Expected<std::string> TemporaryFiles::name(std::string const& stem) {
  if (owned_.empty()) {
    std::error_code error;
    auto pattern = (std::filesystem::temp_directory_path(error) / "tessera-XXXXXX").string();
    if (error || mkdtemp(pattern.data()) == nullptr)
      return tl::make_unexpected(complaint(
          "E0902",
          fmt::format("cannot make a folder {}: {}", pattern, error ? error.message() : std::strerror(errno)),
          "set TMPDIR to a folder that is yours"));
    owned_.emplace_back(pattern);
  }
  auto path = fmt::format("{}/{}-{}.json", owned_.front().path(), stem, owned_.size() - 1);
  owned_.emplace_back(path);
  return path;
}

Expected<void> TemporaryFiles::add(std::string const& text) {
  auto const path = name("size");
  if (!path) return tl::make_unexpected(path.error());
  if (auto written = write_file(*path, text); !written) return written;
  paths_.push_back(*path);
  return {};
}

TemporaryFiles::~TemporaryFiles() {
  while (!owned_.empty()) owned_.pop_back();
}

}  // namespace tessera::cli
