// SPDX-License-Identifier: Apache-2.0
// Plans of shipped models, and of small ones of both kinds.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tessera/check/check.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera {

inline std::string config_of(std::string const& model) {
  for (auto const& file : shipped_workloads())
    if (file.name == model) return std::string(file.text);
  throw std::runtime_error(model + " is not shipped");
}

/// Grouped queries, RMSNorm, positions and gates; or LayerNorm and biases.
inline constexpr char const* k_small_llama =
    R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 4, "vocab_size": 100,
        "max_position_embeddings": 4096, "hidden_act": "silu", "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"})";
inline constexpr char const* k_small_gpt2 =
    R"({"model_type": "gpt2", "n_embd": 512, "n_head": 8, "n_layer": 4, "n_positions": 4096,
        "vocab_size": 100, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5})";

inline OperatorGraph graph_of(std::string const& config, BlockOptions options) {
  options.data_type = "bf16";
  auto graph = import_hf_config(config, "config.json", options);
  if (!graph) throw std::runtime_error(to_text(graph.error()));
  return *graph;
}

inline Plan plan_of_block(OperatorGraph const& graph, PlanOptions const& options = {}) {
  auto plan = choose_by_simulation(graph, shipped_kernels(), machine("h200").value(), options);
  if (!plan) throw std::runtime_error(to_text(plan.error()));
  return *plan;
}

/// An attention block whose products a library computes.
inline Plan library_block(OperatorGraph const& graph) {
  Registry kernels;
  for (auto const& kernel : shipped_kernels().kernels())
    if (kernel.kind != OperatorKind::gemm || kernel.library) (void)kernels.add(kernel);
  auto plan = choose_by_simulation(graph, kernels, machine("h200").value());
  if (!plan) throw std::runtime_error(to_text(plan.error()));
  return *plan;
}

/// An attention block all of whose launches start early; with tiles they wait for tiles.
inline Plan early_block(OperatorGraph const& graph, bool tiles) {
  auto const& product = *shipped_kernels().find("gemm_128x128x64_2x1");
  auto const& attention = *shipped_kernels().find("attention_" + std::to_string(graph.attention.head_dim));
  Recipe recipe;
  recipe.mechanism = tiles ? Mechanism::pdl_tiles : Mechanism::pdl;
  auto const chain = check(tile(graph, {{product, 1}, {attention, 1}, {product, 1}}).value()).value();
  return build_plan(chain, machine("h200").value(), recipe).value();
}

}  // namespace tessera
