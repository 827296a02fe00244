// SPDX-License-Identifier: Apache-2.0
// bench: measures on this machine's GPU what the documentation's figures are made from.
#include <memory>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "flow_bench.hpp"
#include "gpu_files.hpp"
#include "products_run.hpp"

namespace tessera::cli {
namespace {

struct WorkloadArguments : GpuArguments {
  std::string output;
};

/// `mlp` is the same for a model's MLP, and the name that records have.
void add_workload(CLI::App& bench, Session const& session, Action& action, std::string const& name,
                  std::string const& help, std::string const& examples) {
  auto* command = bench.add_subcommand(name, help);
  auto arguments = std::make_shared<WorkloadArguments>();
  add_gpu_options(*command, arguments->workload);
  command->add_option("-o,--output", arguments->output, "The measurements as JSON");
  command->add_option("--cache", arguments->cache, "Also keep the winners in this tuning cache");
  command->add_flag("--quick", arguments->quick, "Fewer samples and finalists");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is tried, a line each");
  command->footer(
      "Tunes each size, then measures in turns, in one run: the tuned plan, Tessera's best with every "
      "mechanism,\n"
      "the planner's choice, cuBLASLt's three best plans, and CUTLASS's in stream order, with programmatic "
      "launch and\n"
      "with Stream-K.\n\n"
      "Examples:\n" +
      examples);
  command->callback([=, &session, &action] {
    action = [=, &session] {
      std::vector<std::string> output;
      if (!arguments->output.empty()) output = {"--output", arguments->output};
      if (auto const fit = check_outputs({arguments->output}); !fit) return session.fail(fit.error());
      return run_sizes(session, "tessera bench " + name, "tessera-bench", "bench", *arguments, output);
    };
  });
}

/// A program that takes only a file to write.
void add_program(CLI::App& bench, Session const& session, Action& action, std::string const& name,
                 std::string const& help, std::string const& footer, std::string const& program) {
  auto* command = bench.add_subcommand(name, help);
  auto output = std::make_shared<std::string>();
  command->add_option("-o,--output", *output, "The measurements as JSON");
  command->footer(footer);
  command->callback([=, &session, &action] {
    action = [=, &session] {
      std::vector<std::string> words;
      if (!output->empty()) words = {"--json", *output};
      return run_companion(session, "tessera bench " + name, program, words);
    };
  });
}

void add_pdl(CLI::App& bench, Session const& session, Action& action) {
  struct Arguments {
    std::string output, trace;
  };
  auto* command = bench.add_subcommand("pdl", "Where a kernel should let the next one start");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("-o,--output", arguments->output, "The measurements as JSON");
  command->add_option("--trace", arguments->trace,
                      "Write PREFIX.html, and for every place PREFIX-<place>.json (a timeline) and "
                      "PREFIX-<place>.trace.json (opens in Perfetto)");
  command->footer(
      "Two dependent layers, FC1 then FC2, launched programmatically, with FC1's trigger at the start, in "
      "the\n"
      "middle, at the end or nowhere, and where an SM has no room for both: times, overlap and a drawing "
      "of each.\n\n"
      "Examples:\n"
      "  tessera bench pdl\n"
      "  tessera bench pdl -o pdl.json --trace pdl");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] {
      std::vector<std::string> words;
      if (!arguments->output.empty()) words.insert(words.end(), {"--json", arguments->output});
      if (!arguments->trace.empty()) words.insert(words.end(), {"--trace", arguments->trace});
      return run_companion(session, "tessera bench pdl", "pdl_placement", words);
    };
  });
}

/// A product with its collective, on several GPUs.
void add_product(CLI::App& bench, Session const& session, Action& action, std::string const& name,
                 std::string const& sizes) {
  struct Arguments : GpuArguments {
    ProductsArguments products;
  };
  auto* command = bench.add_subcommand(name, "Every way on several GPUs, beside cuBLASLt and NCCL");
  auto arguments = std::make_shared<Arguments>();
  arguments->workload.workload = name;
  add_product_sizes(*command, arguments->products);
  add_product_gpus(*command, arguments->products);
  command->add_option("--dtype", arguments->workload.data_type, "bf16 (default) or fp16")
      ->option_text("TYPE");
  command->add_option("-o,--output", arguments->products.record, "The measurements as JSON");
  command->add_option("--cache", arguments->cache, "Also keep the fastest way in this tuning cache");
  command->add_flag("--quick", arguments->quick, "Fewer samples");
  command->footer(
      "Tries every way with every kernel that is worth it, then measures the fastest of each way by turns in "
      "one\n"
      "run, beside cuBLASLt and then NCCL, the product and NCCL alone, of which the longer is what a perfect "
      "overlap\n"
      "takes, and what has to cross the link at the rate of copies. Compares what each computes with plain "
      "fp32\n"
      "arithmetic (docs/peers.md).\n\n"
      "Examples:\n"
      "  tessera bench " +
      name + " " + sizes + " -o out.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] {
      return run_products(session, "bench", *arguments, arguments->products);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("bench",
                         "Measure on this GPU: mlp, workload, overhead, ablation, pdl, reduce,\n"
                         "lattice-boltzmann, gemm-all-reduce, gemm-reduce-scatter, all-gather-gemm");
  command->require_subcommand(1);
  command->footer(
      "Needs a Hopper GPU, and programs that are built by name beside this one:\n"
      "  cmake --build <build> --target tessera-bench copy_chain ablation pdl_placement reduction "
      "bench_lattice_boltzmann");
  add_workload(*command, session, action, "mlp", "A model's MLP, tuned, beside cuBLASLt and CUTLASS",
               "  tessera bench mlp gpt-3-145b --tp 8 -o mlp.json\n"
               "  tessera bench mlp llama-65b --tp 8 --tokens 1,768 --quick");
  add_workload(*command, session, action, "workload",
               "Any workload of operators, tuned, beside the libraries",
               "  tessera bench workload my_chain.json -o my_chain.record.json");
  add_program(
      *command, session, action, "overhead", "What synchronization costs where it can gain least",
      "A copy and a copy of the copy, one full wave of blocks each, with every way to order them.\n"
      "What each call of the device library costs alone: tessera probe --only pair_calls --only pair_hop.\n\n"
      "Examples:\n"
      "  tessera bench overhead -o overhead.json",
      "copy_chain");
  add_program(*command, session, action, "ablation",
              "What each optimization of synchronization is worth alone",
              "Two dependent GEMMs by tile functions, in two sizes, with a semaphore per tile and per row: "
              "without the wait\n"
              "kernel (W), with loads before the wait (R), without tickets (T), with a plain store for a "
              "post (S), and all\n"
              "of them.\n\n"
              "Examples:\n"
              "  tessera bench ablation -o ablation.json",
              "ablation");
  add_pdl(*command, session, action);
  add_program(
      *command, session, action, "reduce", "Sums of 1 KiB to 4 GiB, beside CUB",
      "Sums of floats from device memory, in graphs and as calls, with a cold and a warm L2: the library's "
      "choice,\n"
      "every other way to put the blocks' sums together, and cub::DeviceReduce::Sum, in turns in one run.\n\n"
      "Examples:\n"
      "  tessera bench reduce -o reduction.json",
      "reduction");
  add_flow_bench(*command, session, action);
  for (auto const& name : product_names())
    add_product(*command, session, action, name, "--rows 2048 --columns 8192 --depth 8192");
}

}  // namespace tessera::cli
