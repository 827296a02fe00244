// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/floor.hpp"

#include <gtest/gtest.h>

#include "plan/llama.hpp"

namespace tessera {
namespace {

constexpr double k_flops = 790e12, k_bytes = 4.2e12;

/// An MLP by its definition: weights, input and output once, h written and read.
double mlp_floor(double tokens, double model, double hidden, bool gated) {
  auto const time = [&](double rows_of_weights, double in, double out) {
    double const flops = 2 * tokens * rows_of_weights * in;
    double const bytes = 2 * (rows_of_weights * in + tokens * in + tokens * out);
    return std::max(flops / k_flops, bytes / k_bytes);
  };
  return 1e6 * (time((gated ? 2 : 1) * hidden, model, hidden) + time(model, hidden, model));
}

TEST(Floor, OfAnMlpIsItsOperationsOrItsBytes) {
  for (std::int64_t const tokens : {1, 8, 64, 300, 768, 4096}) {
    auto graph = examples::llama_mlp(tokens);
    EXPECT_EQ(floor_us(graph, k_flops, k_bytes), mlp_floor(static_cast<double>(tokens), 8192, 2752, true));
    graph.operators[0].epilogue = Epilogue::gelu;
    graph.operators[0].n = 2752;
    EXPECT_EQ(floor_us(graph, k_flops, k_bytes), mlp_floor(static_cast<double>(tokens), 8192, 2752, false));
  }
}

TEST(Floor, CountsBatchesAndWhatOnlyMovesBytes) {
  OperatorGraph graph;
  graph.name = "one";
  graph.operators = {{"scores",
                      OperatorKind::gemm,
                      Epilogue::none,
                      64,
                      32,
                      16,
                      10,
                      {{"a", "q", "", ReadPattern::rows}, {"b", "k", "", ReadPattern::rows}},
                      "",
                      {}}};
  EXPECT_EQ(floor_us(graph, 1e6, 1e12), 2.0 * 64 * 32 * 16 * 10);
  EXPECT_EQ(floor_us(graph, 1e12, 1e6), 2.0 * 10 * (64 * 16 + 32 * 16 + 64 * 32));
  graph.operators = {{"copy",
                      OperatorKind::copy,
                      Epilogue::none,
                      64,
                      32,
                      1,
                      1,
                      {{"a", "x", "", ReadPattern::rows}},
                      "",
                      {}}};
  EXPECT_EQ(floor_us(graph, 1, 1e6), 2.0 * (2 * 64 * 32));
}

TEST(Floor, IsZeroOfWhatIsNoWorkload) {
  auto graph = examples::llama_mlp(768);
  graph.operators[1].k = 5;
  EXPECT_EQ(floor_us(graph, k_flops, k_bytes), 0);
}

}  // namespace
}  // namespace tessera
