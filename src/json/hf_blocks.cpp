// SPDX-License-Identifier: Apache-2.0
#include "json/hf_blocks.hpp"

#include <numeric>

namespace tessera::json {
namespace {

OperatorInput external(std::string name, std::string buffer) {
  return {std::move(name), std::move(buffer), "", {}};
}
OperatorInput from(std::string name, std::string const& producer, ReadPattern pattern) {
  return {std::move(name), producer, producer, pattern};
}

Operator gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
              std::vector<OperatorInput> inputs) {
  return {std::move(name), OperatorKind::gemm, Epilogue::none, m, n, k, batch, std::move(inputs), "", {}};
}

}  // namespace

std::vector<Operator> mlp_operators(TransformerShape const& model, Mlp const& mlp) {
  bool const gated = is_gated(model.epilogue);
  std::string const first = gated ? "gate_up" : "up";
  auto up = gemm(first, mlp.rows, gated ? 2 * mlp.inner : mlp.inner, model.hidden, 1,
                 {external("a", "x"), external("b", "w_" + first)});
  up.epilogue = model.epilogue;
  auto down = gemm("down", mlp.rows, model.hidden, mlp.inner, 1,
                   {from("a", first, ReadPattern::rows), external("b", "w_down")});
  up.groups = down.groups = mlp.groups;
  return {up, down};
}

std::vector<Operator> attention_operators(TransformerShape const& model, AttentionShape const& a) {
  auto const rows = a.sequences * a.tokens;
  auto const keys = a.cached + a.tokens;
  auto const entries = a.sequences * a.query_heads;
  auto const columns = (a.query_heads + 2 * a.kv_heads) * a.head_dim;
  auto scores = gemm("scores", a.tokens, keys, a.head_dim, entries,
                     {from("a", "qkv", ReadPattern::query_heads), from("b", "qkv", ReadPattern::key_heads)});
  auto context =
      gemm("context", a.tokens, a.head_dim, keys, entries,
           {from("a", "softmax", ReadPattern::same_batch_rows), from("b", "qkv", ReadPattern::value_heads)});
  if (a.cached > 0) {
    scores.inputs.push_back({"b_cached", "k_cache", "", ReadPattern::key_heads});
    context.inputs.push_back({"b_cached", "v_cache", "", ReadPattern::value_heads});
  }
  Operator softmax{"softmax",
                   OperatorKind::softmax_dropout,
                   Epilogue::none,
                   a.tokens,
                   keys,
                   1,
                   entries,
                   {from("a", "scores", ReadPattern::same_batch_rows)},
                   "",
                   {}};
  return {gemm("qkv", rows, columns, model.hidden, 1, {external("a", "x"), external("b", "w_qkv")}), scores,
          softmax, context,
          gemm("output", rows, model.hidden, a.query_heads * a.head_dim, 1,
               {from("a", "context", ReadPattern::heads_to_columns), external("b", "w_output")})};
}

std::vector<Operator> fused_attention_operators(TransformerShape const& model, AttentionShape const& a,
                                                std::vector<std::int64_t> const& prompts) {
  auto const rows = prompts.empty() ? a.sequences * a.tokens
                                    : std::accumulate(prompts.begin(), prompts.end(), std::int64_t{0});
  auto const columns = (a.query_heads + 2 * a.kv_heads) * a.head_dim;
  auto const width = a.query_heads * a.head_dim;
  Operator attention{"attention",
                     OperatorKind::attention,
                     Epilogue::none,
                     rows,
                     width,
                     a.head_dim,
                     1,
                     {from("a", "qkv", ReadPattern::query_heads), from("b", "qkv", ReadPattern::key_heads),
                      from("c", "qkv", ReadPattern::value_heads)},
                     "",
                     {}};
  if (a.cached > 0) {
    attention.inputs.push_back({"b_cached", "k_cache", "", ReadPattern::key_heads});
    attention.inputs.push_back({"c_cached", "v_cache", "", ReadPattern::value_heads});
    if (a.tokens == 1) attention.inputs.push_back(external("lengths", "lengths"));
  }
  attention.groups = prompts;
  if (!prompts.empty()) attention.inputs.push_back(external("offsets", "offsets"));
  return {gemm("qkv", rows, columns, model.hidden, 1, {external("a", "x"), external("b", "w_qkv")}),
          attention,
          gemm("output", rows, model.hidden, width, 1,
               {from("a", "attention", ReadPattern::rows), external("b", "w_output")})};
}

}  // namespace tessera::json
