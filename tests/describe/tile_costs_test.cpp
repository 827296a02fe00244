// SPDX-License-Identifier: Apache-2.0
// What tile() says that blocks cost, what the catalogue's kernels hold, and what tile() refuses.
#include <gmock/gmock.h>

#include "tessera/describe/parse_tile_expr.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

KernelEntry kernel(std::string const& architecture, OperatorKind kind, int m, int n) {
  for (auto const& variant : shipped_kernels().for_architecture(architecture))
    if (variant.kind == kind && variant.tile_m == m && variant.tile_n == n) return variant;
  ADD_FAILURE() << architecture << " has no " << m << " x " << n;
  return {};
}

OperatorGraph mlp(std::int64_t rows) {
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators = {{"up",
                      OperatorKind::gemm,
                      Epilogue::gelu,
                      rows,
                      6144,
                      12288,
                      1,
                      {{"a", "x", "", {}}, {"b", "w1", "", {}}},
                      "",
                      {"m.json", 1}},
                     {"down",
                      OperatorKind::gemm,
                      Epilogue::none,
                      rows,
                      12288,
                      6144,
                      1,
                      {{"a", "up", "up", {}}, {"b", "w2", "", {}}},
                      "",
                      {"m.json", 2}}};
  return graph;
}

/// Table IV of the cuSync paper: rows, tile, grid and splits of both GEMMs.
TEST(TileCosts, grids_of_the_papers_table_iv) {
  struct Row {
    std::int64_t rows;
    int tile_m, tile_n;
    std::int64_t x1, y1;
    int z1;
    std::int64_t x2, y2;
    int z2;
  };
  for (Row const& row : {Row{64, 64, 256, 24, 1, 4, 48, 1, 3}, Row{128, 128, 256, 24, 1, 3, 48, 1, 3},
                         Row{256, 256, 128, 48, 1, 4, 96, 1, 2}, Row{512, 256, 256, 24, 2, 2, 48, 2, 1},
                         Row{1024, 256, 256, 24, 4, 2, 48, 4, 1}, Row{2048, 256, 256, 24, 8, 1, 48, 8, 1}}) {
    auto const shape = kernel("sm_70", OperatorKind::gemm, row.tile_m, row.tile_n);
    auto const pipeline = tile(mlp(row.rows), {{shape, row.z1}, {shape, row.z2}});
    ASSERT_TRUE(pipeline) << to_text(pipeline.error());
    auto const& [up, down] = std::tie(pipeline->stages[0], pipeline->stages[1]);
    EXPECT_EQ(up.grid, (std::vector<GridDim>{{"x", row.x1}, {"y", row.y1}}));
    EXPECT_EQ(down.grid, (std::vector<GridDim>{{"x", row.x2}, {"y", row.y2}}));
    EXPECT_EQ(up.blocks(), row.x1 * row.y1 * row.z1);
    auto const& access = pipeline->dependences[0].accesses[0];
    auto const names = down.dimension_names();
    EXPECT_EQ(to_text(access.ranges[0], names, row.x1), "all");
    EXPECT_EQ(to_text(access.ranges[1], names, row.y1), row.y1 == 1 ? "all" : "y");
  }
}

TEST(TileCosts, bytes_and_operations_add_up_over_the_grid) {
  auto shape = kernel("sm_90", OperatorKind::gemm, 128, 256);
  shape.splits = k_any_splits;
  auto const pipeline = tile(mlp(300), {{shape, 2}, {shape, 1}});
  ASSERT_TRUE(pipeline);
  auto const& up = pipeline->stages[0];
  EXPECT_EQ(up.grid[1].extent, 3);  // 300 rows in tiles of 128: ragged
  EXPECT_EQ(up.k_steps, 96);        // 12288 / 64 / 2
  EXPECT_DOUBLE_EQ(up.flops_per_block, 2.0 * 128 * 256 * 64 * 96);
  auto const blocks = static_cast<double>(up.blocks());
  // Each of the 24 columns of tiles loads all of x once, each of the 3 rows all of w1.
  EXPECT_DOUBLE_EQ(up.operands[0].bytes_per_block * blocks, 24.0 * 300 * 12288 * 2);
  EXPECT_DOUBLE_EQ(up.operands[1].bytes_per_block * blocks, 3.0 * 12288 * 6144 * 2);
  EXPECT_DOUBLE_EQ(up.operands[0].unique_bytes, 300.0 * 12288 * 2);
  EXPECT_DOUBLE_EQ(up.operands[1].unique_bytes, 12288.0 * 6144 * 2);
  EXPECT_DOUBLE_EQ(up.store_bytes_per_block * static_cast<double>(up.tiles()), 300.0 * 6144 * 2);
  EXPECT_EQ(pipeline->stages[1].operands[0].buffer, "up");
}

TEST(TileCosts, cached_keys_and_new_keys_share_the_bytes) {
  auto const graph = import_hf_config(
      R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 512, "num_attention_heads": 8,
          "num_key_value_heads": 2})",
      "config.json", {"attention", 10, 3, 90, 1, ""});
  ASSERT_TRUE(graph) << to_text(graph.error());
  auto const gemm = kernel("sm_80", OperatorKind::gemm, 64, 64);
  TileChoice const softmax{kernel("sm_80", OperatorKind::softmax_dropout, 4, 1024), 1};
  auto const pipeline = tile(*graph, {{gemm, 1}, {gemm, 1}, softmax, {gemm, 1}, {gemm, 1}});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& scores = pipeline->stages[1];
  ASSERT_EQ(scores.operands.size(), 3u);
  EXPECT_DOUBLE_EQ(scores.operands[1].unique_bytes, 3.0 * 2 * 64 * 10 * 2);  // new keys
  EXPECT_DOUBLE_EQ(scores.operands[2].unique_bytes, 3.0 * 2 * 64 * 90 * 2);  // the cache
  EXPECT_DOUBLE_EQ(scores.operands[2].bytes_per_block, 9 * scores.operands[1].bytes_per_block);
  EXPECT_EQ(scores.grid.size(), 3u);
  EXPECT_EQ(scores.grid[2].extent, 24);
}

TEST(KernelCatalogue, kernels_fit_their_architecture) {
  struct Limit {
    char const* architecture;
    int shared_per_block;
  };
  // CUDA C++ programming guide, technical specifications: opt-in shared memory of one block.
  for (auto const& [architecture, shared] :
       {Limit{"sm_70", 96 * 1024}, Limit{"sm_80", 163 * 1024}, Limit{"sm_90", 227 * 1024}}) {
    auto const catalogue = shipped_kernels().for_architecture(architecture);
    EXPECT_GE(catalogue.size(), 10u);
    std::vector<std::string> names;
    for (auto const& k : catalogue) {
      for (auto const& form : k.forms) {
        auto const& held = form.resources;
        EXPECT_LE(held.shared_bytes, shared) << architecture << " " << k.name;
        EXPECT_LE(held.threads * held.registers_per_thread, 65536) << architecture << " " << k.name;
        EXPECT_LE(held.registers_per_thread, 255);
      }
      EXPECT_THAT(names, testing::Not(testing::Contains(k.name)));
      names.push_back(k.name);
    }
  }
  EXPECT_TRUE(shipped_kernels().for_architecture("sm_42").empty());
}

/// Table I: two blocks per V100 SM up to 256 rows, one above. An SM has 96 KiB and 65536 registers.
TEST(KernelCatalogue, occupancy_on_v100_is_the_papers) {
  auto const blocks = [](KernelEntry const& k) {
    auto const& held = k.forms.front().resources;
    return std::min(96 * 1024 / held.shared_bytes, 65536 / (held.threads * held.registers_per_thread));
  };
  for (auto const& [m, n] :
       {std::pair{32, 256}, std::pair{64, 256}, std::pair{128, 256}, std::pair{256, 128}})
    EXPECT_EQ(blocks(kernel("sm_70", OperatorKind::gemm, m, n)), 2) << m << " x " << n;
  EXPECT_EQ(blocks(kernel("sm_70", OperatorKind::gemm, 256, 256)), 1);
}

std::string refusal(OperatorGraph const& graph, std::vector<TileChoice> const& choices) {
  auto const pipeline = tile(graph, choices);
  return pipeline ? "accepted" : to_text(pipeline.error());
}

TEST(TileMistakes, have_exact_texts) {
  auto const gemm = kernel("sm_80", OperatorKind::gemm, 64, 64);
  auto const softmax = kernel("sm_80", OperatorKind::softmax_dropout, 4, 1024);
  auto graph = mlp(64);
  EXPECT_EQ(refusal(graph, {{gemm, 1}}),
            "error E0150: 2 operators, but 1 tile choices\n"
            "   hint: give one choice for each operator, in order");
  EXPECT_EQ(refusal(graph, {{gemm, 1}, {softmax, 1}}),
            "m.json:2: error E0150: down is a gemm, but kernel softmax_dropout_4 is a softmax_dropout");
  EXPECT_EQ(refusal(graph, {{gemm, 0}, {gemm, 193}}),
            "m.json:1: error E0151: up cannot be split 0 ways along k\n"
            "   hint: k = 12288 is 384 slices of 32: use 1 to 384 splits\n"
            "m.json:2: error E0151: down cannot be split 193 ways along k\n"
            "   hint: k = 6144 is 192 slices of 32: use 1 to 192 splits");
  auto broken = gemm;
  broken.tile_n = 0;
  EXPECT_EQ(refusal(graph, {{broken, 1}, {gemm, 1}}),
            "m.json:1: error E0151: kernel gemm_64x64x32_10 of up: a tile of 64 x 0 x 32 is not "
            "possible");
  auto wide = gemm;
  wide.tile_m = wide.tile_n = 1 << 20;
  auto tiny = gemm;
  tiny.tile_m = tiny.tile_n = 1;
  graph.operators[0].m = graph.operators[1].m = 2147483647;
  EXPECT_EQ(refusal(graph, {{tiny, 1}, {wide, 1}}),
            "m.json:1: error E0154: up would have 6144 x 2147483647 tiles, each in one block: more than "
            "2147483647 blocks\n   hint: use larger tiles");
  graph.operators[1].k = 6143;
  EXPECT_EQ(
      refusal(graph, {{gemm, 1}, {gemm, 1}}),
      "m.json:2: error E0152: down cannot read the output of up as rows: up must have 6143 columns, not "
      "6144");
}

}  // namespace
}  // namespace tessera
