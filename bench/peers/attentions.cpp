// SPDX-License-Identifier: Apache-2.0
// bench_peer_attentions <out.json> <about.json> llama-65b|llama-70b|gpt-3 [<seconds>] [<tokens>...]: the
// attention block of a layer that GPUs share, for one causal prompt, in sequence, untuned and tuned
// (layer_bench.hpp).
#include <cmath>

#include "kernels/gemm_collectives/parallel_attention.hpp"
#include "layer_bench.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

struct Model {
  char const* name;
  int model, heads, key_heads;
  Turning turning;
};
constexpr Model k_models[] = {{"llama-65b", 8192, 64, 64, Turning::halves},
                              {"llama-70b", 8192, 64, 8, Turning::halves},
                              {"gpt-3", 12288, 96, 96, Turning::none}};
constexpr int k_head_size = 128;

/// Of each rank's GPU: the cosines and sines of as many positions as there are tokens.
PeerMemory turns_of(std::shared_ptr<PeerGroup> const& group, int tokens) {
  std::vector<float2> turns;
  for (int position = 0; position < tokens; ++position)
    for (int d = 0; d < k_head_size / 2; ++d) {
      double const angle = position * std::pow(10000.0, -2.0 * d / k_head_size);
      turns.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
  auto memory = must(PeerMemory::make(group, sizeof(float2) * turns.size()));
  for (int rank = 0; rank < group->size(); ++rank)
    gpu::ok(cudaMemcpy(memory.at(rank), turns.data(), sizeof(float2) * turns.size(), cudaMemcpyDefault));
  return memory;
}

void measure(LayerBench& bench, Model const& model, int tokens, Tokens rows, JsonWriter& json) {
  AttentionProblem problem;
  problem.tokens = tokens;
  problem.model = model.model;
  problem.heads = model.heads;
  problem.key_heads = model.key_heads;
  problem.head_size = k_head_size;
  problem.turning = model.turning;
  problem.rows = rows;
  problem.ranks = bench.group()->size();
  must(check_problem(problem));
  auto const columns = static_cast<std::size_t>(problem.model);
  auto const x = columns * static_cast<std::size_t>(tokens);
  int const depth = problem.heads * problem.head_size;
  LayerRing const sets(
      bench.group(),
      {{x, 1},
       {columns * static_cast<std::size_t>(problem.local_columns()), 1 / std::sqrt(problem.model)},
       {columns * static_cast<std::size_t>(depth / problem.ranks), 1 / std::sqrt(depth)},
       {x, 0}},
      problem.type);
  auto const turns = turns_of(bench.group(), tokens);
  auto const operands_of = [&](int set) {
    std::vector<AttentionOperands> all;
    for (int rank = 0; rank < problem.ranks; ++rank)
      all.push_back({sets.at(set, 0, rank), sets.at(set, 1, rank), sets.at(set, 2, rank),
                     sets.at(set, 3, rank), static_cast<float2 const*>(turns.at(rank))});
    return all;
  };
  bench.measure<TensorParallelAttention>(problem, operands_of, json);
}

}  // namespace

int main(int count, char** arguments) {
  return run_layer_bench(count, arguments, k_models, "attention block", "attentions",
                         {1, 16, 64, 512, 2048, 8192}, measure);
}
