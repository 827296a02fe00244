// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

namespace tessera::mlp {

OperatorGraph graph_of(Shape const& shape) {
  bool const gated = shape.form == Form::swiglu;
  Operator first, second;
  first.name = "h";
  first.epilogue = gated ? Epilogue::swiglu : Epilogue::gelu;
  first.m = shape.tokens;
  first.n = gated ? 2 * shape.hidden : shape.hidden;
  first.k = shape.model;
  first.inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  second.name = "y";
  second.m = shape.tokens;
  second.n = shape.model;
  second.k = shape.hidden;
  second.inputs = {{"a", "h", "h", ReadPattern::rows}, {"b", "w2", "", ReadPattern::rows}};
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators = {first, second};
  graph.type = shape.type == ElementType::fp16 ? tessera::ElementType::fp16 : tessera::ElementType::bf16;
  return graph;
}

}  // namespace tessera::mlp
