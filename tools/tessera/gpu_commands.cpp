// SPDX-License-Identifier: Apache-2.0
// tune and run: what a workload takes on this machine's GPU. The work is tessera-gpu's, of tokens
// tessera-decode's.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <tessera/communicate/shards.hpp>

#include "commands.hpp"
#include "companion.hpp"
#include "decode_run.hpp"
#include "flow_run.hpp"
#include "gpu_files.hpp"
#include "load_plan.hpp"
#include "network_run.hpp"
#include "planned_run.hpp"
#include "products_run.hpp"

namespace tessera::cli {
namespace {

struct TuneArguments : GpuArguments {
  std::string load;
  ProductsArguments products;
};
struct RunArguments : GpuArguments {
  bool planned = false;
  std::optional<std::string> machine;
  DecodeArguments decode;
  FlowArguments flow;
  NetworkArguments network;
  ProductsArguments products;
  std::optional<int> gpus;
};

/// The options that both commands have.
void add_options(CLI::App& command, GpuArguments& arguments) {
  add_gpu_options(command, arguments.workload);
  command.add_option(
      "--cache", arguments.cache,
      "The tuning cache (default: TESSERA_TUNE_CACHE, else tessera/tune.json in XDG_CACHE_HOME or ~/.cache)");
}

void append(Diagnostics& found, Diagnostics const& more) {
  found.insert(found.end(), more.begin(), more.end());
}

/// E0906 for options of generating tokens. Adding --decode is a way out for a model alone.
Diagnostics unused_without_decode(RunArguments const& arguments) {
  auto found = unused_decode_options(arguments.decode, "");
  if (found.empty() || arguments.workload.workload == "-") return found;
  auto const source = load_workload_text(arguments.workload.workload);
  bool const model = source && source->summary.kind == DocumentKind::hf_config;
  return model ? unused_decode_options(arguments.decode, "add --decode, or ") : found;
}

/// E0906 for options of tessera run that what is run has no use for.
Diagnostics unused_by_run(RunArguments const& arguments, bool plan) {
  auto const& name = arguments.workload.workload;
  Diagnostics found;
  if (plan) {
    auto sizes = arguments.workload;
    sizes.prompts.reset();  // how long they are is no plan's to say
    found = unused_options(sizes, DocumentKind::plan, name);
  }
  auto const refuse = [&](std::string const& option, std::string const& why, std::string const& hint) {
    auto one = complaint("E0906", option + why, hint);
    found.insert(found.end(), one.begin(), one.end());
  };
  auto const leave_out = [](std::string const& option) { return "leave " + option + " out"; };
  bool const cache = !arguments.cache.empty(), machine = arguments.machine.has_value();
  if (arguments.decode.decode) {
    if (arguments.planned) refuse("--planned", " is not for --decode", leave_out("--planned"));
    return found;
  }
  append(found, unused_without_decode(arguments));
  if (plan) {
    auto const why = " is for a workload; " + name + " is a plan";
    if (arguments.planned) refuse("--planned", why, leave_out("--planned"));
    if (machine) refuse("--machine", why, leave_out("--machine"));
    if (cache) refuse("--cache", why, leave_out("--cache"));
    return found;
  }
  if (machine && !arguments.planned)
    refuse("--machine", " is for --planned; what was tuned needs no profile",
           "add --planned, or leave --machine out");
  if (cache && arguments.planned)
    refuse("--cache", " is for what was tuned; --planned does not look at it",
           "leave --cache or --planned out");
  return found;
}

/// E0906 for options of plans and workloads, which `name` is neither.
Diagnostics unused_of_workloads(RunArguments const& arguments, std::string const& name) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--planned", arguments.planned},
                                      {"--machine", arguments.machine.has_value()},
                                      {"--timeline", !arguments.timeline.empty()},
                                      {"--html", !arguments.html.empty()}})
    if (given)
      append(found, complaint("E0906", fmt::format("{} is not for {}", option, name),
                              fmt::format("leave {} out", option)));
  return found;
}

/// And for options of generating tokens.
Diagnostics unused_without_model(RunArguments const& arguments, std::string const& name) {
  auto found = unused_decode_options(arguments.decode, "");
  if (arguments.decode.decode)
    append(found, complaint("E0906", "--decode is not for " + name, "leave --decode out"));
  append(found, unused_of_workloads(arguments, name));
  return found;
}

/// --predict, -o and --machine are a flow's, too.
Diagnostics unused_by_flow(RunArguments const& arguments) {
  auto others = arguments;
  others.decode.predict = false;
  if (arguments.decode.predict) others.decode.output.clear(), others.machine.reset();
  auto found = unused_without_model(others, k_flow_name);
  append(found, unused_gpu_options(arguments, k_flow_name));
  append(found, unused_without_products(arguments.products));
  append(found, unused_without_network(arguments.network));
  return found;
}

Diagnostics unused_by_products(RunArguments const& arguments) {
  auto found = unused_without_model(arguments, arguments.workload.workload);
  append(found, unused_without_flow(arguments.flow));
  append(found, unused_without_network(arguments.network));
  return found;
}

/// Some options of generating tokens are a network's, too.
Diagnostics unused_by_network(RunArguments const& arguments) {
  auto found = unused_of_workloads(arguments, arguments.workload.workload + " as a whole");
  append(found, unused_without_products(arguments.products));
  return found;
}

int tune_products(Session const& session, TuneArguments const& arguments) {
  Diagnostics unused;
  auto const& name = arguments.workload.workload;
  for (auto const& [option, given] :
       {std::pair{"--for", !arguments.load.empty()}, {"--verbose", arguments.verbose}})
    if (given)
      append(unused, complaint("E0906", fmt::format("{} is not for {}", option, name),
                               fmt::format("leave {} out", option)));
  return unused.empty() ? run_products(session, "tune", arguments, arguments.products) : session.fail(unused);
}

}  // namespace

void add_tune(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("tune", "Measure which plan of a workload is fastest on this GPU, and remember it");
  auto arguments = std::make_shared<TuneArguments>();
  add_options(*command, *arguments);
  command
      ->add_option("--for", arguments->load,
                   "steady: work comes back to back, hot times count; bursts: with pauses, cool times count; "
                   "any (default): both")
      ->check(CLI::IsMember({"any", "steady", "bursts"}))
      ->option_text("any|steady|bursts");
  command->add_flag("--quick", arguments->quick, "Fewer samples and finalists: seconds instead of a minute");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is tried, a line each");
  add_product_sizes(*command, arguments->products);
  add_product_gpus(*command, arguments->products);
  command->footer(
      "For each size: tries the registered kernels, alone and together in every way to overlap them, "
      "compares "
      "the\n"
      "finalists' results with plain fp32 arithmetic and measures them in turns, back to back (hot) and with "
      "pauses\n"
      "(cool). cuBLASLt in stream order is always among them; what does not beat it beyond the noise is not "
      "taken.\n"
      "The cache keeps the plans: tessera run and the library's mlp() take them. Needs a Hopper GPU.\n\n"
      "Examples:\n"
      "  tessera tune llama-65b --block mlp --tp 8\n"
      "  tessera tune gpt-3-145b --tp 8 --tokens 1,768 --quick --cache tune.json\n"
      "  tessera tune my_chain.json\n\n"
      "gemm-all-reduce, gemm-reduce-scatter or all-gather-gemm in place of a workload tries every way of a "
      "matrix\n"
      "product with its collective on several GPUs, with every kernel that is worth it (docs/peers.md). The "
      "cache\n"
      "keeps the fastest way: tessera run takes it.\n\n"
      "  tessera tune gemm-reduce-scatter --rows 2048 --columns 8192 --depth 22016");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] {
      if (is_product(arguments->workload.workload)) return tune_products(session, *arguments);
      auto unused = unused_without_products(arguments->products);
      if (arguments->products.gpus)
        append(unused, complaint("E0906", "--gpus is for products on several GPUs", "leave --gpus out"));
      if (!unused.empty()) return session.fail(unused);
      std::vector<std::string> load;
      if (!arguments->load.empty()) load = {"--for", arguments->load};
      return run_sizes(session, "tessera tune", "tessera-gpu", "tune", *arguments, load);
    };
  });
}

void add_run(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("run", "Run a plan or a workload on this GPU and check what it computes");
  auto arguments = std::make_shared<RunArguments>();
  add_options(*command, *arguments);
  command->get_option("workload")
      ->description(
          "A plan (tessera plan -o), or a workload: a shipped name (see tessera workloads), a model's\n"
          "config.json, or a tessera.workload/1 description");
  command->add_flag("--quick", arguments->quick, "Few replays: for a profiler, or for many sizes");
  command->add_flag("--planned", arguments->planned,
                    "Take what the plan of each size says, not what was tuned");
  command->add_option("--machine", arguments->machine,
                      "With --planned, with --decode, for which its memory counts, and with --predict: a\n"
                      "shipped profile (see tessera machines) or a profile's file (default h200)");
  add_decode_options(*command, arguments->decode);
  add_flow_options(*command, arguments->flow);
  add_network_options(*command, arguments->network);
  add_products_options(*command, arguments->products);
  command
      ->add_option("--gpus", arguments->gpus,
                   "The first so many GPUs of this host: of a flow, whose box they share in slabs along z "
                   "(1 to 16, default 1), or of a product on several (2 to 16, default 2)")
      ->check(CLI::Range(1, k_most_ranks))
      ->option_text("N");
  command->add_option("--timeline", arguments->timeline,
                      "The measured timeline as JSON, for tessera diff; of one plan or size");
  command->add_option("--html", arguments->html,
                      "A report page with the measured timeline beside the simulated one");
  command->footer(
      "Takes what tessera tune has stored, or cuBLASLt where nothing is, runs it on random operands with "
      "poisoned\n"
      "outputs and compares the result with plain fp32 arithmetic. Exit code 1 if one is wrong. Needs a "
      "Hopper GPU.\n\n"
      "Given a plan (tessera plan -o) instead of a model, runs that plan of registered kernels in the same "
      "way; what\n"
      "a kernel cannot do of what the plan says is refused.\n\n"
      "A measured timeline is by launch: when each began and ended. Launches that start early, one after "
      "the\n"
      "other, have one begin and one end together.\n\n"
      "Examples:\n"
      "  tessera run llama-65b --block mlp --tp 8 --tokens 1,768\n"
      "  tessera run gpt-3-145b --tp 8 --tokens 768 --planned\n"
      "  tessera run plan.json --timeline measured.json --html run.html\n\n"
      "--decode generates tokens with a whole model of Llama's kind, in two launches a token or, where that\n"
      "is faster, one for each operator: new tokens go to standard output, a line for each prompt, and how\n"
      "fast they came to standard error (docs/decode.md).\n\n"
      "  tessera run llama-3.2-1b --decode --prompt-ids 1,2,3 --new-tokens 128\n"
      "  tessera run llama-65b --decode --tp 8 --predict --cached 1024\n"
      "  tessera run ./Llama-3.2-1B/config.json --decode --weights ./Llama-3.2-1B --prompt-ids prompts.txt "
      "-o "
      "record.json\n\n"
      "lattice-boltzmann in place of a workload computes steps of a flow on this GPU, says how fast, and "
      "checks what "
      "is\n"
      "conserved (docs/lattice-boltzmann.md).\n\n"
      "  tessera run lattice-boltzmann --box 128x128x128 --steps 1000\n"
      "  tessera run lattice-boltzmann --flow cavity --box 64x64x64 --speed 0.1 --tau 0.69 --vtk "
      "cavity.vtk\n"
      "  tessera run lattice-boltzmann --box 128x128x128 --predict --machine h100\n"
      "  tessera run lattice-boltzmann --box 64x64x64 --predict --gpus 2\n\n"
      "resnet-38, vgg-19 and resnet-50 without a --layer run as whole networks, with chains of convolutions "
      "or "
      "cuDNN\n"
      "where each is faster: what they take, layer by layer (docs/convolutions.md). Of the options for "
      "generating "
      "tokens\n"
      "--weights, --seed, --predict, -o and --commit are theirs, too.\n\n"
      "  tessera run resnet-38 --images 1,4\n"
      "  tessera run resnet-38 --images 1,2,8 --predict\n"
      "  tessera run resnet-50 --images 4 --weights ./resnet50 --tune --check -o record.json\n\n"
      "gemm-all-reduce, gemm-reduce-scatter or all-gather-gemm in place of a workload computes a matrix "
      "product "
      "with its\n"
      "collective on several GPUs of this host in the way that was tuned, or in the usual one, beside "
      "cuBLASLt and "
      "NCCL in\n"
      "sequence and each of them alone, and checks what comes out (docs/peers.md). tessera bench has every "
      "way.\n\n"
      "  tessera run gemm-all-reduce --rows 8 --columns 8192 --depth 8192\n"
      "  tessera run gemm-reduce-scatter --rows 2048 --columns 8192 --depth 22016 --quick --record out.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] {
      auto const& name = arguments->workload.workload;
      arguments->flow.gpus = arguments->products.gpus = arguments->gpus;
      if (name == k_flow_name) {
        auto const others = unused_by_flow(*arguments);
        arguments->flow.predict = arguments->decode.predict;
        arguments->flow.output = arguments->decode.output;
        arguments->flow.machine = arguments->machine.value_or("");
        return others.empty() ? run_flow(session, arguments->flow) : session.fail(others);
      }
      if (is_product(name)) {
        auto const others = unused_by_products(*arguments);
        return others.empty() ? run_products(session, "run", *arguments, arguments->products)
                              : session.fail(others);
      }
      if (arguments->gpus)
        return session.fail(complaint("E0906", "--gpus is for lattice-boltzmann and products on several GPUs",
                                      "leave --gpus out"));
      if (auto const flow = unused_without_flow(arguments->flow); !flow.empty()) return session.fail(flow);
      if (!arguments->decode.decode && is_network(*arguments)) {
        auto const others = unused_by_network(*arguments);
        return others.empty() ? run_network(session, *arguments, arguments->decode, arguments->network)
                              : session.fail(others);
      }
      if (auto const none = layer_of_no_workload(*arguments); !none.empty()) return session.fail(none);
      if (auto const network = unused_without_network(arguments->network); !network.empty())
        return session.fail(network);
      if (auto const more = unused_without_products(arguments->products); !more.empty())
        return session.fail(more);
      bool const plan = !arguments->decode.decode && is_plan(name);
      if (auto const unused = unused_by_run(*arguments, plan); !unused.empty()) return session.fail(unused);
      if (arguments->decode.decode)
        return run_decode(session, *arguments, arguments->decode, arguments->machine.value_or(""));
      if (plan) {
        if (auto const prompts = parse_prompts(arguments->workload); !prompts)
          return session.fail(prompts.error());
        if (auto const fine = load_plan(session, name, {.quotes_times = true}); !fine)
          return session.fail(fine.error());
        return run_plan(session, name, *arguments);
      }
      return arguments->planned ? run_planned(session, *arguments, arguments->machine.value_or("h200"))
                                : run_sizes(session, "tessera run", "tessera-gpu", "run", *arguments, {});
    };
  });
}

}  // namespace tessera::cli
