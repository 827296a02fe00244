// SPDX-License-Identifier: Apache-2.0
// Speed of the T3 simulator: one sub-layer in each of T3's models, all that the study runs of it.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace {

using namespace tessera;

template <class T>
T right(Expected<T> const& result) {
  if (!result) throw std::runtime_error(to_text(result.error()));
  return *result;
}

void sub_layer(benchmark::State& state, std::size_t model, SubLayer layer) {
  auto const profile = right(machine("t3"));
  auto const models = t3_models();
  auto const& transformer = models.at(model);
  int const gpus = transformer.tensor_parallel.front();
  SubLayerOptions options;
  options.kernel = default_gemm_kernel(profile);
  double events = 0;
  for (auto _ : state) {
    auto const collectives = right(run_collectives(profile, transformer, gpus, options));
    auto const runs = right(run_sub_layer(profile, transformer, gpus, layer, options, collectives));
    for (auto const* run : {&collectives.reduce_scatter, &collectives.reduce_scatter_near_memory,
                            &collectives.all_gather, &runs.gemm, &runs.t3, &runs.t3_mca})
      events += static_cast<double>(run->events);
  }
  state.SetLabel(transformer.name + " TP " + std::to_string(gpus) + " " + to_text(layer));
  state.counters["events_per_second"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(sub_layer, first_model_fc2, 0, SubLayer::fc2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sub_layer, second_model_input_projection, 1, SubLayer::input_projection)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sub_layer, third_model_fc2, 2, SubLayer::fc2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sub_layer, last_model_fc1, 4, SubLayer::fc1)->Unit(benchmark::kMillisecond);

}  // namespace
