// SPDX-License-Identifier: Apache-2.0
#include "json/pipeline_json.hpp"
#include "json/workload_read.hpp"

namespace tessera::json {

Words<OperatorKind> const& operator_kinds() {
  static Words<OperatorKind> const words{
      {"gemm", "softmax_dropout", "conv2d", "copy", "sum", "attention", "norm", "turn_heads"},
      {OperatorKind::gemm, OperatorKind::softmax_dropout, OperatorKind::conv2d, OperatorKind::copy,
       OperatorKind::sum, OperatorKind::attention, OperatorKind::norm, OperatorKind::turn_heads}};
  return words;
}

Words<ElementType> const& element_types() {
  static Words<ElementType> const words{
      {"bf16", "fp16", "fp32", "fp64", "int32"},
      {ElementType::bf16, ElementType::fp16, ElementType::fp32, ElementType::fp64, ElementType::int32}};
  return words;
}

Words<Epilogue> const& epilogues() {
  static Words<Epilogue> const words{
      {"none", "gelu", "swiglu", "geglu", "residual"},
      {Epilogue::none, Epilogue::gelu, Epilogue::swiglu, Epilogue::geglu, Epilogue::residual}};
  return words;
}

Words<ReadPattern> const& read_patterns() {
  static Words<ReadPattern> const words{
      {"rows", "swiglu_pair", "query_heads", "key_heads", "value_heads", "same_batch_rows",
       "heads_to_columns", "conv_halo", "same_tile"},
      {ReadPattern::rows, ReadPattern::swiglu_pair, ReadPattern::query_heads, ReadPattern::key_heads,
       ReadPattern::value_heads, ReadPattern::same_batch_rows, ReadPattern::heads_to_columns,
       ReadPattern::conv_halo, ReadPattern::same_tile}};
  return words;
}

std::vector<Ability> const& abilities() {
  static std::vector<Ability> const words{{"wait", &Abilities::wait},
                                          {"post", &Abilities::post},
                                          {"run_beside", &Abilities::run_beside},
                                          {"start_early", &Abilities::start_early},
                                          {"persist", &Abilities::persist},
                                          {"bands", &Abilities::bands},
                                          {"any_order", &Abilities::any_order},
                                          {"load_early", &Abilities::load_early},
                                          {"fuse", &Abilities::fuse},
                                          {"run_alone", &Abilities::run_alone}};
  return words;
}

Words<OnComplete> const& completions() {
  static Words<OnComplete> const words{
      {"release_waiters", "start_peer_copy", "reduce_into_peer"},
      {OnComplete::release_waiters, OnComplete::start_peer_copy, OnComplete::reduce_into_peer}};
  return words;
}

}  // namespace tessera::json
