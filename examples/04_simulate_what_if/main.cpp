// SPDX-License-Identifier: Apache-2.0
// "What if" questions to a machine that does not exist: the H200 profile with other numbers of SMs and other
// memory bandwidths. A profile is a plain value, so a question is an assignment.
#include <cstdio>
#include <string>

#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

tessera::Expected<tessera::OperatorGraph> llama_mlp(int tokens) {
  tessera::BlockOptions options;
  options.tokens = tokens;
  options.tensor_parallel = 8;
  for (auto const& file : tessera::shipped_workloads())
    if (file.name == "llama-65b") return import_hf_config(file.text, "llama-65b.json", options);
  return tessera::refuse({"E0000", {}, {}, "llama-65b is not shipped", {}, ""});
}

// Plans anew for the changed machine: what was best on the real one need not be best there.
double best_us(int tokens, tessera::MachineProfile const& machine) {
  auto const price = [&](tessera::Plan const& plan) {
    return tessera::simulate(plan, machine, {.record_tiles = false});
  };
  auto const plan = choose(llama_mlp(tokens).value(), tessera::shipped_kernels(), machine, price);
  return plan.value().predicted_us;  // .value() throws if there is none
}

}  // namespace

int main() {
  auto const h200 = tessera::machine("h200").value();
  std::printf("LLaMA-65B MLP, 8-way model parallel: time against the real machine's\n\n");
  std::printf("%-24s %12s %12s\n", "what if the H200 had", "1 token", "2048 tokens");

  double const one = best_us(1, h200);
  double const many = best_us(2048, h200);
  auto const ask = [&](char const* question, auto change) {
    auto machine = h200;
    change(machine);
    std::printf("%-24s %11.2fx %11.2fx\n", question, best_us(1, machine) / one,
                best_us(2048, machine) / many);
  };
  ask("half the SMs", [](auto& machine) { machine.sms /= 2; });
  ask("twice the SMs", [](auto& machine) { machine.sms *= 2; });
  ask("half the bandwidth", [](auto& machine) { machine.dram_gbps /= 2; });
  ask("twice the bandwidth", [](auto& machine) { machine.dram_gbps *= 2; });
  ask("free kernel launches", [](auto& machine) { machine.stream_gap_ns = machine.pdl_gap_ns = 0; });
}
