// SPDX-License-Identifier: Apache-2.0
#include "bench/predict/recipes.hpp"

#include <string_view>

namespace tessera::bench {
namespace {

Operator gemm(char const* name, std::int64_t m, std::int64_t n, std::int64_t k) {
  Operator op;
  op.name = name;
  op.m = m;
  op.n = n;
  op.k = k;
  op.inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  return op;
}

}  // namespace

OperatorGraph mlp_graph(MlpShape const& shape) {
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators = {gemm("gemm1", shape.tokens, shape.hidden * (shape.swiglu ? 2 : 1), shape.model),
                     gemm("gemm2", shape.tokens, shape.model, shape.hidden)};
  graph.operators[0].epilogue = shape.swiglu ? Epilogue::swiglu : Epilogue::gelu;
  graph.operators[1].inputs = {{"a", "gemm1", "gemm1", ReadPattern::rows},
                               {"b", "w2", "", ReadPattern::rows}};
  return graph;
}

OperatorGraph gemm_graph(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  OperatorGraph graph;
  graph.name = "gemm";
  graph.operators = {gemm("gemm1", rows, columns, depth)};
  return graph;
}

NamedRecipe priced(NamedRecipe recipe) {
  constexpr std::string_view stock = "cutlass_";
  for (auto& [name, splits, variant] : recipe.kernels)
    if (name.rfind(stock, 0) == 0) name.replace(0, stock.size(), "gemm_");
  return recipe;
}

}  // namespace tessera::bench
