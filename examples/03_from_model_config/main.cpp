// SPDX-License-Identifier: Apache-2.0
// From a model's own config.json to a plan for each prompt size:
//   example [config.json]          without one: LLaMA-65B, which the library ships
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

std::string read(char const* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string shipped_config(std::string_view name) {
  for (auto const& file : tessera::shipped_workloads())
    if (file.name == name) return std::string(file.text);
  return "";
}

int complain(tessera::Diagnostics const& diagnostics) {
  std::fputs((to_text(diagnostics) + "\n").c_str(), stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const file = argc > 1 ? argv[1] : "llama-65b.json";
  std::string const config = argc > 1 ? read(argv[1]) : shipped_config("llama-65b");

  auto const machine = tessera::machine("h200");
  if (!machine) return complain(machine.error());
  // The planner asks what a candidate costs and does not care who answers; here, the simulator.
  auto const price = [&](tessera::Plan const& plan) {
    return tessera::simulate(plan, *machine, {.record_tiles = false});
  };

  std::printf("%6s  %-44s  %s\n", "tokens", "operators (m x n x k)", "at least as fast as stream order");
  for (int const tokens : {1, 128, 1024}) {
    tessera::BlockOptions options;
    options.block = "mlp";
    options.tokens = tokens;
    options.tensor_parallel = 8;
    auto const graph = tessera::import_hf_config(config, file, options);
    if (!graph) return complain(graph.error());

    auto const plan = choose(*graph, tessera::shipped_kernels(), *machine, price);
    if (!plan) return complain(plan.error());

    std::string sizes;
    for (auto const& op : graph->operators) {
      if (!sizes.empty()) sizes += ", ";
      sizes +=
          op.name + " " + std::to_string(op.m) + " x " + std::to_string(op.n) + " x " + std::to_string(op.k);
    }
    std::printf("%6d  %-44s  %s\n", tokens, sizes.c_str(),
                plan->predicted_us <= plan->stream_order_us ? "yes" : "NO");
  }
}
