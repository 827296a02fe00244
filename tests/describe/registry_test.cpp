// SPDX-License-Identifier: Apache-2.0
// The registry of kernels, and what tile() makes of kernels that are not plain tile shapes.
#include <gmock/gmock.h>

#include "tessera/describe/workload.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

KernelEntry mine() {
  KernelEntry kernel;
  kernel.name = "mine";
  kernel.family = "mine";
  kernel.architectures = {"sm_90"};
  kernel.forms = {{{ElementType::bf16}, {Epilogue::none}, 2, {}}};
  return kernel;
}

OperatorGraph product(std::int64_t m, std::int64_t n, std::int64_t k) {
  OperatorGraph graph;
  graph.name = "product";
  Operator op;
  op.name = "c";
  op.m = m;
  op.n = n;
  op.k = k;
  op.inputs = {{"a", "x", "", {}}, {"b", "w", "", {}}};
  op.where = {"g.json", 1};
  graph.operators = {op};
  return graph;
}

TEST(Registry, finds_what_was_added) {
  Registry registry;
  ASSERT_TRUE(registry.add(mine()));
  EXPECT_EQ(*registry.find("mine"), mine());
  EXPECT_EQ(registry.find("yours"), nullptr);
  EXPECT_EQ(registry.for_architecture("sm_90").size(), 1U);
  EXPECT_TRUE(registry.for_architecture("sm_80").empty());
}

TEST(Registry, refuses_what_no_stage_could_be_made_of) {
  Registry registry;
  ASSERT_TRUE(registry.add(mine()));
  auto const refusal = [&](auto const& change) {
    auto kernel = mine();
    kernel.name = "other";
    change(kernel);
    auto const added = registry.add(kernel);
    return added ? "accepted" : to_text(added.error());
  };
  std::string const hint =
      "\n   hint: give every kernel a name of its own, an architecture, a tile and a form";
  EXPECT_EQ(
      refusal([](KernelEntry& k) { k.name = "mine"; }),
      "error E0155: kernel \"mine\" cannot be registered: a kernel of this name is there already" + hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.name = ""; }),
            "error E0155: kernel \"\" cannot be registered: it has no name" + hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.architectures = {}; }),
            "error E0155: kernel \"other\" cannot be registered: it is for no architecture" + hint);
  EXPECT_EQ(
      refusal([](KernelEntry& k) { k.tile_m = 0; }),
      "error E0155: kernel \"other\" cannot be registered: a tile of 0 x 128 x 32 is not possible" + hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.cluster_n = 0; }),
            "error E0155: kernel \"other\" cannot be registered: a cluster of 1 x 0 is not possible" + hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.splits = -1; }),
            "error E0155: kernel \"other\" cannot be registered: -1 splits are not possible" + hint);
  EXPECT_EQ(
      refusal([](KernelEntry& k) { k.efficiency = 1.5; }),
      "error E0155: kernel \"other\" cannot be registered: an efficiency of 1.5 is not possible" + hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.whole = true; }),
            "error E0155: kernel \"other\" cannot be registered: one launch for the whole output can neither "
            "wait for tiles nor post them" +
                hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.forms = {}; }),
            "error E0155: kernel \"other\" cannot be registered: it has no form" + hint);
  EXPECT_EQ(
      refusal([](KernelEntry& k) { k.forms[0].types = {}; }),
      "error E0155: kernel \"other\" cannot be registered: a form needs a type, an epilogue and a slice in "
      "flight" +
          hint);
  EXPECT_EQ(refusal([](KernelEntry& k) { k.forms[0].pipeline_stages = 1'000'000; }),
            "error E0155: kernel \"other\" cannot be registered: a form has 1000000 slices in flight, and a "
            "block's shared memory has room for 16384" +
                hint);
  EXPECT_EQ(refusal([](KernelEntry&) {}), "accepted");
}

TEST(ShippedKernels, are_all_registered) {
  std::map<std::string, int> of_family;
  for (auto const& kernel : shipped_kernels().kernels()) ++of_family[kernel.family];
  EXPECT_THAT(of_family, testing::ElementsAre(std::pair("attention_sm90", 7),
                                              std::pair("cached_attention", 3), std::pair("cublaslt", 1),
                                              std::pair("few_tokens", 5), std::pair("gemm_sm90", 19),
                                              std::pair("norm_rope", 10), std::pair("published", 41),
                                              std::pair("reduction", 1), std::pair("skinny_gemm", 3)));
}

TEST(TileKernels, swapped_tiles_lie_in_rows_and_columns_of_the_output) {
  auto const* kernel = shipped_kernels().find("gemm_80x192x64_2x1_swapped");
  ASSERT_NE(kernel, nullptr);
  auto const pipeline = tile(product(300, 6144, 12288), {{*kernel, 1}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& stage = pipeline->stages[0];
  EXPECT_EQ(stage.grid, (std::vector<GridDim>{{"x", 32}, {"y", 4}}));
  EXPECT_EQ(stage.k_steps, 192);
  EXPECT_EQ(stage.flops_per_block, 2.0 * 80 * 192 * 12288);
  EXPECT_EQ(stage.operands[0].multicast, 1);
  EXPECT_EQ(stage.operands[1].multicast, 2);
  EXPECT_FALSE(stage.last_split_posts);
  EXPECT_FALSE(stage.can.any_order);
}

TEST(TileKernels, the_last_split_posts_where_the_kernel_says_so) {
  auto const* kernel = shipped_kernels().find("gemm_80x192x64_2x1_swapped_split2");
  ASSERT_NE(kernel, nullptr);
  auto const pipeline = tile(product(150, 6144, 12288), {{*kernel, 2}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  EXPECT_EQ(pipeline->stages[0].blocks(), 2 * 2 * 32);
  EXPECT_TRUE(pipeline->stages[0].last_split_posts);
  EXPECT_EQ(pipeline->stages[0].k_steps, 96);
}

TEST(TileKernels, a_whole_kernel_is_one_tile_with_all_the_work) {
  auto const* kernel = shipped_kernels().find("cublaslt");
  ASSERT_NE(kernel, nullptr);
  auto const pipeline = tile(product(300, 6144, 12288), {{*kernel, 1}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& stage = pipeline->stages[0];
  EXPECT_EQ(stage.blocks(), 1);
  EXPECT_EQ(stage.flops_per_block, 2.0 * 300 * 6144 * 12288);
  EXPECT_EQ(stage.operands[1].bytes_per_block, 2.0 * 6144 * 12288);
  EXPECT_EQ(stage.store_bytes_per_block, 2.0 * 300 * 6144);
  EXPECT_EQ(stage.efficiency, kernel->efficiency);
  EXPECT_FALSE(stage.can.wait);
}

TEST(TileKernels, a_sum_is_one_element) {
  auto const* kernel = shipped_kernels().find("sum");
  ASSERT_NE(kernel, nullptr);
  OperatorGraph graph;
  graph.name = "sum";
  graph.type = ElementType::fp32;
  graph.element_bytes = 4;
  Operator op;
  op.name = "s";
  op.kind = OperatorKind::sum;
  op.m = 1000;
  op.n = 100;
  op.inputs = {{"x", "x", "", {}}};
  graph.operators = {op};
  auto const pipeline = tile(graph, {{*kernel, 1}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  EXPECT_EQ(pipeline->stages[0].operands[0].bytes_per_block, 4.0 * 1000 * 100);
  EXPECT_EQ(pipeline->stages[0].store_bytes_per_block, 4);
  EXPECT_EQ(pipeline->buffers, (std::vector<Buffer>{{"x", 1000, 100, 1, "fp32"}, {"s", 1, 1, 1, "fp32"}}));
}

// A kernel for each number of columns: norm() launches one of them.
TEST(TileKernels, norms_are_for_rows_of_their_length) {
  Operator op;
  op.kind = OperatorKind::norm;
  op.m = 100;
  auto const kernels_for = [&](std::int64_t columns) {
    op.n = columns;
    std::vector<std::string> names;
    for (auto const& kernel : shipped_kernels().kernels())
      if (computes(kernel, OperatorGraph{}, op)) names.push_back(kernel.name);
    return names;
  };
  for (auto const& [columns, name] : {std::pair{4, "norm_1024"},
                                      {1024, "norm_1024"},
                                      {1028, "norm_2048"},
                                      {4096, "norm_4096"},
                                      {8192, "norm_8192"},
                                      {12288, "norm_16384"},
                                      {16384, "norm_16384"}})
    EXPECT_THAT(kernels_for(columns), testing::ElementsAre(name)) << columns;
  for (int const columns : {1, 1026, 16388}) EXPECT_THAT(kernels_for(columns), testing::IsEmpty()) << columns;
}

TEST(TileKernels, buffers_have_the_operands_sizes) {
  auto graph = product(300, 6144, 12288);
  graph.operators[0].epilogue = Epilogue::swiglu;
  auto const* kernel = shipped_kernels().find("gemm_128x256x64_2x1");
  auto const pipeline = tile(graph, {{*kernel, 1}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  EXPECT_EQ(pipeline->buffers,
            (std::vector<Buffer>{
                {"x", 300, 12288, 1, "bf16"}, {"w", 6144, 12288, 1, "bf16"}, {"c", 300, 3072, 1, "bf16"}}));
  EXPECT_EQ(pipeline->stages[0].activation, "swiglu");
}

TEST(TileKernels, refusals_have_exact_texts) {
  auto const refusal = [](OperatorGraph const& graph, char const* kernel, int splits) {
    auto const pipeline = tile(graph, {{*shipped_kernels().find(kernel), splits}});
    return pipeline ? "accepted" : to_text(pipeline.error());
  };
  auto graph = product(300, 6144, 12288);
  EXPECT_EQ(
      refusal(graph, "gemm_80x192x64_2x1_swapped_split2", 1),
      "g.json:1: error E0151: kernel gemm_80x192x64_2x1_swapped_split2 of c is compiled for 2 splits, not 1");
  EXPECT_EQ(refusal(graph, "gemm_128x128x64_2x1", 3),
            "g.json:1: error E0151: kernel gemm_128x128x64_2x1 of c is compiled for 1 split, not 3");
  graph.operators[0].epilogue = Epilogue::swiglu;
  EXPECT_EQ(
      refusal(graph, "gemm_256x144x64_1x2", 1),
      "g.json:1: error E0151: kernel gemm_256x144x64_1x2 of c is not compiled for bf16 with epilogue swiglu");
  graph.operators[0].epilogue = Epilogue::none;
  graph.operators[0].batch = 4;
  EXPECT_EQ(refusal(graph, "cublaslt", 1),
            "g.json:1: error E0151: kernel cublaslt of c computes one matrix, not a batch of 4");
}

}  // namespace
}  // namespace tessera
