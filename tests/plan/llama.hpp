// SPDX-License-Identifier: Apache-2.0
// One GPU's share of LLaMA-65B's MLP under 8-way model parallelism, as operators.
#pragma once

#include "tessera/describe/workload.hpp"

namespace tessera::examples {

inline OperatorGraph llama_mlp(std::int64_t tokens) {
  OperatorGraph graph;
  graph.name = "llama-65b mlp";
  Operator gate_up{"gate_up",
                   OperatorKind::gemm,
                   Epilogue::swiglu,
                   tokens,
                   2 * 2752,
                   8192,
                   1,
                   {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}},
                   "h",
                   {}};
  Operator down{"down",
                OperatorKind::gemm,
                Epilogue::none,
                tokens,
                8192,
                2752,
                1,
                {{"a", "h", "gate_up", ReadPattern::rows}, {"b", "w2", "", ReadPattern::rows}},
                "y",
                {}};
  graph.operators = {gate_up, down};
  return graph;
}

}  // namespace tessera::examples
