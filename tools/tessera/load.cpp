// SPDX-License-Identifier: Apache-2.0
#include "load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "diagnostic/nearest.hpp"
#include "files.hpp"
#include "kernels/networks/network.hpp"
#include "session.hpp"
#include "tessera/check/check.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped.hpp"

namespace tessera::cli {
namespace {

constexpr std::int64_t k_largest_size = std::int64_t{1} << 24;  // as the importers have it
constexpr std::int64_t k_most_steps = 5'000'000;  // of several loops in one command: some 0.3 us each

/// A file rather than a shipped name: it reads like one, or there is one.
bool is_path(std::string const& text) {
  std::error_code error;
  return text == "-" || text.find('/') != std::string::npos ||
         (text.size() > 5 && text.compare(text.size() - 5, 5, ".json") == 0) ||
         std::filesystem::exists(text, error);
}

std::vector<std::string> names_of(std::span<ShippedFile const> files) {
  std::vector<std::string> names;
  for (auto const& file : files) names.emplace_back(file.name);
  return names;
}

char const* what_is(DocumentKind kind) {
  switch (kind) {
    case DocumentKind::workload: return "a workload with its own sizes";
    case DocumentKind::hf_config: return "a model's config.json";
    case DocumentKind::conv_network: return "a convolution network";
    case DocumentKind::plan: return "a plan";
    case DocumentKind::timeline: return "a timeline";
    case DocumentKind::machine: return "a machine profile";
    case DocumentKind::study: return "a study's tables";
    case DocumentKind::roles: return "a loop with roles";
    case DocumentKind::sweep: return "a table of a sweep";
    case DocumentKind::probe: return "what a probe found";
    case DocumentKind::tune_cache: return "a tuning cache";
    case DocumentKind::record: return "a record of measurements";
    case DocumentKind::unknown: return "none of the files that tessera knows";
  }
  return "";
}

/// The command for a file of this kind.
std::string what_reads(DocumentKind kind, std::string const& file) {
  switch (kind) {
    case DocumentKind::workload:
    case DocumentKind::hf_config:
    case DocumentKind::conv_network:
      return fmt::format("make a plan first: tessera plan {} -o plan.json", file);
    case DocumentKind::plan: return "what shows a plan: tessera explain " + file;
    case DocumentKind::timeline: return "what shows a timeline: tessera explain " + file;
    case DocumentKind::machine: return "what takes a machine: tessera plan llama-65b --machine " + file;
    case DocumentKind::study:
      return "tessera diff takes timelines and plans; one run of T3's study is a timeline: tessera simulate "
             "--study t3 --model T-NLG --tp 8 --layer "
             "FC-2 "
             "--config t3 -o run.json";
    case DocumentKind::roles:
      return "what predicts its time: tessera simulate --iterations 10 --roles " + file;
    case DocumentKind::sweep: return "what reads a table: tessera sweep --merge " + file;
    case DocumentKind::probe: return "what reads it: tessera probe --from " + file;
    case DocumentKind::tune_cache: return "what reads it: tessera tune and run, with --cache " + file;
    case DocumentKind::record:
      return fmt::format("a probe's is read by tessera probe --from {}; a benchmark's by no command", file);
    case DocumentKind::unknown: return "";
  }
  return "";
}

/// "1,64,256" as numbers from `least` to `most`. E0909 with the option and its hint.
Expected<std::vector<std::int64_t>> whole_numbers(std::string const& list, std::string const& option,
                                                  std::int64_t least, std::int64_t most,
                                                  std::string const& hint) {
  std::vector<std::int64_t> numbers;
  for (auto const& word : split_list(list)) {
    std::int64_t number = 0;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number < least || number > most)
      return tl::make_unexpected(complaint(
          "E0909", fmt::format("{}: \"{}\" is not a whole number from {} to {}", option, word, least, most),
          hint));
    numbers.push_back(number);
  }
  return numbers;
}

Expected<std::vector<std::int64_t>> distinct(Expected<std::vector<std::int64_t>> const& numbers) {
  if (!numbers) return numbers;
  std::vector<std::int64_t> once;
  for (auto const number : *numbers)
    if (std::find(once.begin(), once.end(), number) == once.end()) once.push_back(number);
  return once;
}

/// Tokens of each expert; an empty list for no option.
Expected<std::vector<std::int64_t>> parse_routing(std::optional<std::string> const& list) {
  if (!list) return std::vector<std::int64_t>{};
  return whole_numbers(*list, "--routing", 0, k_largest_size, "--routing 40,12,0,12");
}

/// How many layers of a model; 0: all.
Expected<std::int64_t> parse_layers(std::optional<std::string> const& text) {
  if (!text) return 1;
  if (*text == "all") return 0;
  auto const numbers = whole_numbers(*text, "--layers", 1, k_largest_size, "--layers 4, or --layers all");
  if (!numbers) return tl::make_unexpected(numbers.error());
  if (numbers->size() == 1) return numbers->front();
  return tl::make_unexpected(complaint("E0909", fmt::format("--layers takes one number, not {}", *text),
                                       "--layers 4, or --layers all"));
}

/// Whether tokens see all keys of their sequence.
Expected<bool> parse_mask(std::optional<std::string> const& word) {
  if (!word || *word == "causal") return false;
  if (*word == "all") return true;
  return tl::make_unexpected(complaint("E0909", fmt::format("--mask takes causal or all, not {}", *word),
                                       "--mask all: each token sees all keys of its sequence"));
}

Expected<std::vector<SizedWorkload>> transformer(SourceText const& source, WorkloadOptions const& options) {
  auto const sizes = parse_sizes(options.tokens.value_or("1"), "--tokens");
  if (!sizes) return tl::make_unexpected(sizes.error());
  auto const routing = parse_routing(options.routing);
  if (!routing) return tl::make_unexpected(routing.error());
  auto const prompts = parse_prompts(options);
  if (!prompts) return tl::make_unexpected(prompts.error());
  auto const layers = parse_layers(options.layers);
  if (!layers) return tl::make_unexpected(layers.error());
  auto const all_keys = parse_mask(options.mask);
  if (!all_keys) return tl::make_unexpected(all_keys.error());
  auto const name = options.block.value_or("mlp");
  if (options.mask && !*all_keys && name != "fused_attention" && name != "layer")
    return tl::make_unexpected(
        complaint("E0216",
                  fmt::format("a causal mask is of --block fused_attention and layer, and not of --block {}",
                              name.substr(0, 60)),
                  name == "attention" ? "leave --mask out: --block attention scores all keys"
                                      : "use --block fused_attention, or leave --mask out"));
  std::vector<SizedWorkload> out;
  for (auto const tokens : *sizes) {
    BlockOptions block;
    block.block = name;
    block.tokens = tokens;
    block.sequences = options.sequences.value_or(1);
    block.cached = options.cached.value_or(0);
    block.tensor_parallel = options.tensor_parallel.value_or(1);
    block.data_type = options.data_type.value_or("");
    block.routing = *routing;
    block.prompts = *prompts;
    block.layers = *layers;
    block.all_keys = *all_keys;
    auto graph = import_hf_config(source.text, source.file, block);
    if (!graph) return tl::make_unexpected(graph.error());
    out.push_back({options.prompts.value_or(std::to_string(tokens)), std::move(*graph)});
  }
  return out;
}

Expected<std::vector<SizedWorkload>> network(SourceText const& source, WorkloadOptions const& options) {
  if (!options.layer)
    return tl::make_unexpected(complaint("E0906", fmt::format("{} needs --layer", source.file),
                                         fmt::format("--layer {}", list_of(source.summary.layers, "or"))));
  auto const sizes = parse_sizes(options.images.value_or("1"), "--images");
  if (!sizes) return tl::make_unexpected(sizes.error());
  std::vector<SizedWorkload> out;
  for (auto const images : *sizes) {
    auto graph = import_conv_network(source.text, source.file, {*options.layer, images});
    if (!graph) return tl::make_unexpected(graph.error());
    out.push_back({std::to_string(images), std::move(*graph)});
  }
  return out;
}

/// E0112: several numbers of iterations are checked in one command only if they take no longer than one may.
Expected<void> check_together(Loop const& loop, std::vector<std::int64_t> const& sizes) {
  double each = 0;  // steps of an iteration: for a tile, and for each of its accesses
  auto const count = [&](Dependence const& dependence) {
    double steps = static_cast<double>(dependence.accesses.size()) + 1;
    for (auto const& dim : loop.body.stages[static_cast<std::size_t>(dependence.consumer)].grid)
      steps *= static_cast<double>(dim.extent);
    each += steps;
  };
  for (auto const& dependence : loop.body.dependences) count(dependence);
  for (auto const& carried : loop.carried) count(carried.dependence);
  auto iterations = sizes.front();
  for (std::size_t s = 1; s < sizes.size(); ++s) {
    iterations += sizes[s];
    if (iterations <= k_most_iterations && static_cast<double>(iterations) * each <= k_most_steps) continue;
    return tl::make_unexpected(complaint(
        "E0112",
        fmt::format("{} of the {} numbers of iterations are {} iterations together: too many for one command",
                    s + 1, sizes.size(), iterations),
        fmt::format("give {} of them at a time", s),
        {fmt::format("at most {} iterations, and {} steps to count tiles and accesses, of which each has {}",
                     k_most_iterations, k_most_steps, each)}));
  }
  return {};
}

/// Written out, once for each number of iterations.
Expected<std::vector<SizedWorkload>> unrolled(Loop const& loop, SourceText const& source,
                                              WorkloadOptions const& options) {
  if (!options.iterations)
    return tl::make_unexpected(complaint(
        "E0906", fmt::format("{} needs --iterations: it is a loop", source.file), "--iterations 10"));
  auto const sizes = distinct(whole_numbers(*options.iterations, "--iterations", 1, k_most_iterations,
                                            "--iterations 10, or several: --iterations 4,16"));
  if (!sizes) return tl::make_unexpected(sizes.error());
  if (auto const fit = check_together(loop, *sizes); !fit) return tl::make_unexpected(fit.error());
  std::vector<SizedWorkload> out;
  for (auto const iterations : *sizes) {
    auto checked = check(loop, static_cast<int>(iterations));
    if (!checked) return tl::make_unexpected(checked.error());
    auto const& pipeline = checked->pipeline();
    out.push_back({std::to_string(iterations), pipeline, std::move(*checked)});
  }
  return out;
}

}  // namespace

tl::unexpected<Diagnostics> wrong_kind(std::string const& file, DocumentSummary const& summary,
                                       char const* wanted, std::string hint) {
  auto const kind = summary.kind;
  Diagnostics found = complaint("E0905", fmt::format("this is {}, not {}", what_is(kind), wanted),
                                hint.empty() ? what_reads(kind, file) : std::move(hint));
  if (kind == DocumentKind::unknown && !summary.schema.empty())
    found.front().notes.push_back(fmt::format("its schema is \"{}\"", summary.schema.substr(0, 60)));
  found.front().where.file = file;
  return tl::make_unexpected(found);
}

Expected<SourceText> load_workload_text(std::string const& name_or_path) {
  SourceText source;
  for (auto const& file : shipped_workloads())
    if (file.name == name_or_path) {
      source.text = file.text;
      source.file = name_or_path;
    }
  if (source.text.empty()) {
    if (!is_path(name_or_path)) {
      auto const names = names_of(shipped_workloads());
      auto const networks = networks::network_names();
      if (std::find(networks.begin(), networks.end(), name_or_path) != networks.end())
        return tl::make_unexpected(complaint(
            "E0903", fmt::format("{} is a network that is run as a whole, and no workload", name_or_path),
            fmt::format("tessera run {}; layers of resnet-38 and vgg-19 are workloads (--layer)",
                        name_or_path)));
      return tl::make_unexpected(
          complaint("E0903", fmt::format("there is no workload or file \"{}\"", name_or_path),
                    did_you_mean(name_or_path, names), {"shipped: " + list_of(names)}));
    }
    auto text = read_file(name_or_path);
    if (!text) return tl::make_unexpected(text.error());
    source.text = std::move(*text);
    source.file = name_or_path == "-" ? "standard input" : name_or_path;
  }
  return source_text(std::move(source.text), source.file);
}

Expected<SourceText> source_text(std::string text, std::string const& file) {
  auto summary = summarize_document(text, file);
  if (!summary) return tl::make_unexpected(summary.error());
  return SourceText{std::move(text), file, std::move(*summary)};
}

Diagnostics unused_options(WorkloadOptions const& options, DocumentKind kind, std::string const& file) {
  struct Given {
    char const* option;
    bool given;
    DocumentKind kind;
  };
  Given const all[] = {{"--block", options.block.has_value(), DocumentKind::hf_config},
                       {"--tokens", options.tokens.has_value(), DocumentKind::hf_config},
                       {"--sequences", options.sequences.has_value(), DocumentKind::hf_config},
                       {"--prompts", options.prompts.has_value(), DocumentKind::hf_config},
                       {"--cached", options.cached.has_value(), DocumentKind::hf_config},
                       {"--tp", options.tensor_parallel.has_value(), DocumentKind::hf_config},
                       {"--dtype", options.data_type.has_value(), DocumentKind::hf_config},
                       {"--routing", options.routing.has_value(), DocumentKind::hf_config},
                       {"--layers", options.layers.has_value(), DocumentKind::hf_config},
                       {"--mask", options.mask.has_value(), DocumentKind::hf_config},
                       {"--layer", options.layer.has_value(), DocumentKind::conv_network},
                       {"--images", options.images.has_value(), DocumentKind::conv_network},
                       {"--iterations", options.iterations.has_value(), DocumentKind::workload}};
  Diagnostics found;
  for (auto const& [option, given, of] : all)
    if (given && of != kind) {
      auto one =
          complaint("E0906", fmt::format("{} is for {}; {} is {}", option, what_is(of), file, what_is(kind)),
                    fmt::format("{}leave {} out",
                                kind == DocumentKind::plan ? "a plan has its sizes inside; " : "", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

Expected<std::vector<SizedWorkload>> load_workloads(WorkloadOptions const& options) {
  auto const source = load_workload_text(options.workload);
  if (!source) return tl::make_unexpected(source.error());
  return load_workloads(*source, options);
}

Expected<std::vector<SizedWorkload>> load_workloads(SourceText const& source,
                                                    WorkloadOptions const& options) {
  auto const kind = source.summary.kind;
  bool const known =
      kind == DocumentKind::hf_config || kind == DocumentKind::conv_network || kind == DocumentKind::workload;
  if (!known)
    return wrong_kind(
        source.file, source.summary, "a workload",
        kind == DocumentKind::plan
            ? fmt::format("run it: tessera run {}; or plan or tune the workload that it was made from",
                          source.file)
        : kind != DocumentKind::unknown
            ? ""
            : "a workload is a model's config.json (has \"model_type\"), or has \"schema\": "
              "\"tessera.workload/1\" or \"tessera.conv_network/1\"");
  if (auto const extra = unused_options(options, kind, source.file); !extra.empty())
    return tl::make_unexpected(extra);
  if (kind == DocumentKind::hf_config) return transformer(source, options);
  if (kind == DocumentKind::conv_network) return network(source, options);
  auto workload = parse_workload(source.text, source.file);
  if (!workload) return tl::make_unexpected(workload.error());
  if (auto const* loop = std::get_if<Loop>(&*workload)) return unrolled(*loop, source, options);
  if (options.iterations)
    return tl::make_unexpected(complaint("E0906",
                                         fmt::format("--iterations is for a loop; {} is none", source.file),
                                         "leave --iterations out, or add \"loop\" to the file"));
  std::vector<SizedWorkload> one;
  one.push_back({"", std::move(*workload)});
  return one;
}

Expected<MachineProfile> load_machine(std::string const& name_or_path) {
  auto const shipped = shipped_machines();
  bool const known = std::any_of(shipped.begin(), shipped.end(),
                                 [&](ShippedFile const& file) { return file.name == name_or_path; });
  if (known || !is_path(name_or_path)) return machine(name_or_path);
  auto const text = read_file(name_or_path);
  if (!text) return tl::make_unexpected(text.error());
  return parse_machine(*text, name_or_path);
}

std::vector<std::string> assumptions(MachineProfile const& machine) {
  std::vector<std::string> notes;
  if (machine.provisional)
    notes.push_back(
        fmt::format("The machine profile {} is provisional: its figures come from publications, not from a "
                    "measurement of this machine. Trust the order of candidates more than the times.",
                    machine.name));
  return notes;
}

Expected<std::vector<std::int64_t>> parse_prompts(WorkloadOptions const& options) {
  if (!options.prompts) return std::vector<std::int64_t>{};
  if (options.tokens || options.sequences)
    return tl::make_unexpected(complaint(
        "E0906",
        fmt::format("--prompts says the sizes, and {} as well", options.tokens ? "--tokens" : "--sequences"),
        "give one of the two"));
  return whole_numbers(*options.prompts, "--prompts", 1, k_largest_size, "--prompts 512,128,2048");
}

Expected<std::vector<std::int64_t>> parse_sizes(std::string const& list, std::string const& option) {
  return distinct(whole_numbers(list, option, 1, k_largest_size,
                                fmt::format("{0} 768, or several: {0} 1,64,256", option)));
}

std::vector<std::string> split_list(std::string const& list) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at <= list.size()) {
    auto const end = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace tessera::cli
