// SPDX-License-Identifier: Apache-2.0
// bench_peer_mlps <out.json> <about.json> llama-65b|gpt-3 [<seconds>] [<tokens>...]: the MLP of a layer that
// GPUs share, in sequence, untuned and tuned (layer_bench.hpp).
#include <cmath>

#include "kernels/gemm_collectives/parallel_mlp.hpp"
#include "layer_bench.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

struct Model {
  char const* name;
  int model, hidden;
  mlp::Form form;
};
constexpr Model k_models[] = {{"llama-65b", 8192, 22016, mlp::Form::swiglu},
                              {"gpt-3", 12288, 49152, mlp::Form::gelu}};

void measure(LayerBench& bench, Model const& model, int tokens, Tokens rows, JsonWriter& json) {
  MlpProblem const problem{tokens, model.model,       model.hidden,         model.form,
                           rows,   ElementType::bf16, bench.group()->size()};
  auto const columns = static_cast<std::size_t>(problem.model);
  auto const x = columns * static_cast<std::size_t>(tokens);
  LayerRing const sets(
      bench.group(),
      {{x, 1},
       {columns * static_cast<std::size_t>(problem.local_columns()), 1 / std::sqrt(problem.model)},
       {columns * static_cast<std::size_t>(problem.local_hidden()), 1 / std::sqrt(problem.hidden)},
       {x, 0}},
      problem.type);
  auto const operands_of = [&](int set) {
    std::vector<MlpOperands> all;
    for (int rank = 0; rank < problem.ranks; ++rank)
      all.push_back(
          {sets.at(set, 0, rank), sets.at(set, 1, rank), sets.at(set, 2, rank), sets.at(set, 3, rank)});
    return all;
  };
  bench.measure<TensorParallelMlp>(problem, operands_of, json);
}

}  // namespace

int main(int count, char** arguments) {
  return run_layer_bench(count, arguments, k_models, "MLP", "mlps", {1, 16, 64, 512, 2048, 8192}, measure);
}
