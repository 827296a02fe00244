// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/workload_key.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "plan/llama.hpp"
#include "support/plans.hpp"

namespace tessera {
namespace {

using examples::llama_mlp;

TEST(WorkloadKey, OfOperatorsSaysWhoReadsWhom) {
  auto const key = workload_key(llama_mlp(768));
  EXPECT_EQ(key.structure,
            "gemm+swiglu bf16 (a: in0 rows, b: in1 rows) > gemm bf16 (a: 0 rows, b: in2 rows)");
  EXPECT_EQ(key.sizes, (std::vector<std::vector<std::int64_t>>{{768, 5504, 8192, 1}, {768, 8192, 2752, 1}}));
  EXPECT_EQ(rows_of(key), 768);
}

TEST(WorkloadKey, NamesDoNotCount) {
  auto graph = llama_mlp(768);
  graph.name = "mine";
  graph.where = {"mine.json", 7};
  graph.operators[0].name = graph.operators[1].inputs[0].producer = "up";
  graph.operators[0].output = graph.operators[1].inputs[0].buffer = "hidden";
  graph.operators[0].inputs[0].buffer = "tokens";
  graph.operators[1].inputs[1].buffer = "weights";
  graph.attention.tokens = 5;  // not used
  EXPECT_EQ(workload_key(graph), workload_key(llama_mlp(768)));
}

TEST(WorkloadKey, EverythingElseCounts) {
  auto const key = workload_key(llama_mlp(768));
  std::vector<std::function<void(OperatorGraph&)>> const changes{
      [](OperatorGraph& g) { g.type = ElementType::fp16; },
      [](OperatorGraph& g) { g.element_bytes = 1; },
      [](OperatorGraph& g) { g.operators[0].epilogue = Epilogue::gelu; },
      [](OperatorGraph& g) { g.operators[1].kind = OperatorKind::copy; },
      [](OperatorGraph& g) { g.operators[1].n = 4096; },
      [](OperatorGraph& g) { g.operators[1].k = 4096; },
      [](OperatorGraph& g) { g.operators[1].batch = 2; },
      [](OperatorGraph& g) { g.operators[1].inputs[0].pattern = ReadPattern::swiglu_pair; },
      [](OperatorGraph& g) { g.operators[1].inputs[0].producer.clear(); },
      [](OperatorGraph& g) { g.operators[1].inputs[1].name = "c"; },
      [](OperatorGraph& g) { g.operators[1].inputs[1].buffer = "w1"; },  // read twice
      [](OperatorGraph& g) { g.operators[1].output = "x"; },             // overwritten
      [](OperatorGraph& g) { g.operators[0].m = 769; },
      [](OperatorGraph& g) { g.operators[0].inputs[0].pattern = ReadPattern::conv_halo; },
      [](OperatorGraph& g) { g.operators[1].inputs[0].policy = rows(2); },
      [](OperatorGraph& g) { g.operators.pop_back(); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    auto graph = llama_mlp(768);
    changes[i](graph);
    EXPECT_NE(workload_key(graph), key) << "change " << i;
  }
}

TEST(WorkloadKey, RowsAreM) {
  auto const key = workload_key(llama_mlp(768));
  EXPECT_TRUE(same_but_rows(key, key));
  EXPECT_TRUE(same_but_rows(key, workload_key(llama_mlp(1))));
  auto wider = llama_mlp(1);
  wider.operators[1].n = 4096;
  EXPECT_FALSE(same_but_rows(key, workload_key(wider)));
  auto gelu = llama_mlp(1);
  gelu.operators[0].epilogue = Epilogue::gelu;
  EXPECT_FALSE(same_but_rows(key, workload_key(gelu)));
}

TEST(WorkloadKey, SizesOfAttentionAndConvolutionCountWhereTheyAreUsed) {
  auto graph = llama_mlp(768);
  graph.operators[1].inputs[0].pattern = ReadPattern::heads_to_columns;
  auto const before = workload_key(graph);
  EXPECT_EQ(before.sizes.size(), 3u);
  graph.attention.cached = 512;
  EXPECT_NE(workload_key(graph), before);
  EXPECT_FALSE(same_but_rows(workload_key(graph), before));
  graph.operators[0].kind = OperatorKind::conv2d;
  graph.conv.r = 5;
  EXPECT_EQ(workload_key(graph).sizes.back(), (std::vector<std::int64_t>{1, 1, 1, 1, 5, 3}));
}

TEST(WorkloadKey, OfAPipelineHoldsAllButTheGrids) {
  auto pipeline = support::figure_one();
  pipeline.stages[0].kernel = "mine";
  auto const key = workload_key(pipeline);
  // The number is part of what caches store: it must not change from one version to the next by chance.
  EXPECT_EQ(key.structure, "pipeline gemm1 by mine > gemm2 #7a9352612046217f");
  EXPECT_EQ(key.sizes, (std::vector<std::vector<std::int64_t>>{{3, 2}, {3, 2}}));
  EXPECT_EQ(rows_of(key), 0);

  auto renamed = pipeline;
  renamed.name = "other";
  renamed.where = renamed.stages[0].where = renamed.dependences[0].where = {"other.cpp", 3};
  EXPECT_EQ(workload_key(renamed), key);

  std::vector<std::function<void(Pipeline&)>> const changes{
      [](Pipeline& p) { p.stages[0].grid[1].extent = 3; },
      [](Pipeline& p) { p.stages[1].splits = 2; },
      [](Pipeline& p) { p.stages[1].flops_per_block += 1; },
      [](Pipeline& p) { p.stages[1].operands[0].bytes_per_block = 8; },
      [](Pipeline& p) { p.stages[1].can.fuse = false; },
      [](Pipeline& p) { p.stages[1].resources.shared_bytes = 8; },
      [](Pipeline& p) { p.dependences[0].accesses[0].ranges[0].clamp = true; },
      [](Pipeline& p) { p.dependences[0].accesses[0].ranges[0].end = TileExpr::constant(2); },
      [](Pipeline& p) { p.dependences[0].policy = rows(2); },
      [](Pipeline& p) {
        p.buffers.push_back({"x", 8, 8, 1, "bf16"});
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    auto changed = pipeline;
    changes[i](changed);
    EXPECT_NE(workload_key(changed), key) << "change " << i;
    EXPECT_FALSE(same_but_rows(workload_key(changed), key)) << "change " << i;
  }
}

}  // namespace
}  // namespace tessera
