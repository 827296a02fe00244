// SPDX-License-Identifier: Apache-2.0
// Speed of the host side on one core: importing, checking, planning, simulating, printing and reading plans.
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "tessera/check/check.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/generate/generate.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

using namespace tessera;

template <class T>
T required(Expected<T> value) {
  if (!value) throw std::runtime_error(to_text(value.error()));
  return *std::move(value);
}

OperatorGraph llama_mlp(std::int64_t tokens) {
  for (auto const& file : shipped_workloads()) {
    if (file.name != "llama-65b") continue;
    BlockOptions options;
    options.tokens = tokens;
    options.tensor_parallel = 8;
    return required(import_hf_config(file.text, "llama-65b.json", options));
  }
  throw std::runtime_error("llama-65b is not shipped");
}

Plan llama_plan(std::int64_t tokens, MachineProfile const& machine) {
  auto const price = [&](Plan const& plan) { return simulate(plan, machine, {.record_tiles = false}); };
  return required(choose(llama_mlp(tokens), shipped_kernels(), machine, price));
}

// Two grids of side x side tiles; a tile of the second reads a row of the first.
Pipeline two_grids(int side) {
  auto const x = TileExpr::dimension(0);
  auto const y = TileExpr::dimension(1);
  Stage producer;
  producer.name = "producer";
  producer.output = "c";
  producer.grid = {{"x", side}, {"y", side}};
  Stage consumer = producer;
  consumer.name = "consumer";
  consumer.output = "d";
  consumer.operands = {{"a", "c", 0, 0}};
  Dependence row;
  row.consumer = 1;
  row.producer = 0;
  row.operand = "a";
  row.accesses = {{{{TileExpr::constant(0), TileExpr::constant(side)}, {y, y + TileExpr::constant(1)}}}};
  return {"two_grids", {producer, consumer}, {row}, {}};
}

void check_tiles(benchmark::State& state) {
  auto const pipeline = two_grids(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(check(pipeline));
}
BENCHMARK(check_tiles)->Arg(24)->Arg(708)->Unit(benchmark::kMillisecond);

void plan_llama_mlp(benchmark::State& state) {
  auto const h200 = required(machine("h200"));
  for (auto _ : state) benchmark::DoNotOptimize(llama_plan(state.range(0), h200));
}
BENCHMARK(plan_llama_mlp)->Arg(1)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond);

void simulate_llama_mlp(benchmark::State& state) {
  auto const h200 = required(machine("h200"));
  auto const plan = llama_plan(state.range(0), h200);
  std::int64_t blocks = 0;
  for (auto const& stage : plan.pipeline.stages) blocks += stage.blocks();
  for (auto _ : state) benchmark::DoNotOptimize(simulate(plan, h200));
  state.counters["blocks/s"] =
      benchmark::Counter(static_cast<double>(blocks * state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(simulate_llama_mlp)->Arg(1)->Arg(256)->Arg(2048)->Unit(benchmark::kMicrosecond);

void plan_json_round_trip(benchmark::State& state) {
  auto const plan = llama_plan(2048, required(machine("h200")));
  for (auto _ : state) benchmark::DoNotOptimize(parse_plan(print_plan(plan), "plan.json"));
}
BENCHMARK(plan_json_round_trip)->Unit(benchmark::kMicrosecond);

void generate(benchmark::State& state) {
  auto const plan = llama_plan(2048, required(machine("h200")));
  for (auto _ : state) benchmark::DoNotOptimize(generate_header(plan));
}
BENCHMARK(generate)->Unit(benchmark::kMicrosecond);

}  // namespace
