// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

namespace tessera::cli {

void add_workload_options(CLI::App& command, WorkloadOptions& options) {
  command
      .add_option("workload", options.workload,
                  "A shipped name (see tessera workloads), or a file: a model's config.json,\n"
                  "a convolution network, or a tessera.workload/1 description; - is standard input")
      ->required();
  auto const models = "Sizes of a model";
  command
      .add_option(
          "--block", options.block,
          "mlp (default), attention, local_attention, fused_attention, layer, experts or shared_expert")
      ->group(models);
  command.add_option("--tokens", options.tokens, "New tokens per sequence, or several: 1,64,256 (default 1)")
      ->group(models);
  command.add_option("--sequences", options.sequences, "Sequences in the batch (default 1)")->group(models);
  command
      .add_option("--prompts", options.prompts,
                  "fused_attention, layer: tokens of each of several sequences, 512,128,2048,\n"
                  "in place of --tokens and --sequences")
      ->group(models);
  command.add_option("--cached", options.cached, "Tokens per sequence already in the KV cache (default 0)")
      ->group(models);
  command
      .add_option("--tp", options.tensor_parallel,
                  "Tensor-parallel degree; the plan is one GPU's share (default 1)")
      ->group(models);
  command.add_option("--dtype", options.data_type, "fp16 or bf16 (default: the config's own)")->group(models);
  command
      .add_option("--routing", options.routing,
                  "experts: tokens that each expert gets, 40,12,0,12 (default: all as many)")
      ->group(models);
  command
      .add_option("--layers", options.layers,
                  "layer: how many, one behind the other, each with weights of its own, or all (default 1)")
      ->group(models);
  command
      .add_option("--mask", options.mask,
                  "fused_attention: causal (default), or all, where each token sees all of its sequence")
      ->group(models);
  auto const networks = "Sizes of a convolution network";
  command.add_option("--layer", options.layer, "Which layer, by name: 56x56x64")->group(networks);
  command.add_option("--images", options.images, "Images in the batch, or several: 1,4,8 (default 1)")
      ->group(networks);
  command.add_option("--iterations", options.iterations, "How often a loop is repeated, or several: 4,16")
      ->group("Sizes of a loop");
}

}  // namespace tessera::cli
