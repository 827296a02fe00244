// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tessera/describe/dsl.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

std::string_view shipped(std::string_view name) {
  for (auto const& file : shipped_workloads())
    if (file.name == name) return file.text;
  ADD_FAILURE() << name << " is not shipped";
  return {};
}

/// Without source lines, which print_workload does not keep.
Workload bare(Workload workload) {
  if (auto* graph = std::get_if<OperatorGraph>(&workload)) {
    graph->where = {};
    for (auto& op : graph->operators) op.where = {};
  } else {
    auto& pipeline = std::get<Pipeline>(workload);
    pipeline.where = {};
    for (auto& stage : pipeline.stages) stage.where = {};
    for (auto& dependence : pipeline.dependences) dependence.where = {};
  }
  return workload;
}

void expect_round_trip(Workload const& workload) {
  auto const text = print_workload(workload);
  auto const again = parse_workload(text, "w.json");
  ASSERT_TRUE(again) << to_text(again.error()) << "\n" << text;
  EXPECT_EQ(bare(*again), bare(workload)) << text;
  EXPECT_EQ(print_workload(*again), text);
}

TEST(WorkloadJson, shipped_two_gemms) {
  auto const workload = parse_workload(shipped("two-gemms"), "two-gemms.json");
  ASSERT_TRUE(workload) << to_text(workload.error());
  auto const& pipeline = std::get<Pipeline>(*workload);
  EXPECT_EQ(name_of(*workload), "two-gemms");
  EXPECT_EQ(pipeline.stages[0].output, "C");
  EXPECT_EQ(pipeline.stages[1].where, (SourceLine{"two-gemms.json", 20}));
  EXPECT_EQ(pipeline.dependences[0].where.line, 36);
  expect_round_trip(*workload);
}

TEST(WorkloadJson, an_operators_policy_is_that_of_its_tiles_however_they_are_cut) {
  auto workload = parse_workload(shipped("lora"), "lora.json");
  ASSERT_TRUE(workload) << to_text(workload.error());
  expect_round_trip(*workload);
  auto& graph = std::get<OperatorGraph>(*workload);
  graph.operators[1].inputs[0].policy = rows(2);
  expect_round_trip(*workload);
  for (auto const& kernel : shipped_kernels().for_architecture("sm_90")) {
    if (!computes(kernel, graph, graph.operators[0])) continue;
    TileChoice const choice{kernel, kernel.splits == k_any_splits ? 1 : kernel.splits};
    auto const tiled = tile(graph, {choice, choice});
    if (kernel.tile_k > 64 || choice.splits > 1) continue;  // up is 64 deep
    ASSERT_TRUE(tiled) << to_text(tiled.error());
    EXPECT_EQ(tiled->dependences.front().policy, rows(2)) << kernel.name;
  }
}

TEST(WorkloadJson, every_imported_graph_survives_the_round_trip) {
  for (auto const* name : {"llama-65b", "gpt-3-145b", "llama-3-8b", "llama-3.2-1b", "qwen2.5-72b"})
    for (auto const* block : {"mlp", "attention"}) {
      auto const graph = import_hf_config(shipped(name), name, {block, 3, 2, 100, 1, ""});
      ASSERT_TRUE(graph) << to_text(graph.error());
      expect_round_trip(*graph);
    }
  auto const conv = import_conv_network(shipped("resnet-38"), "resnet-38.json", {"28x28x128", 2});
  ASSERT_TRUE(conv);
  expect_round_trip(*conv);
}

TEST(WorkloadJson, every_tiled_pipeline_survives_the_round_trip) {
  for (auto const* architecture : {"sm_70", "sm_80", "sm_90"}) {
    auto const catalogue = shipped_kernels().for_architecture(architecture);
    auto const first = [&](OperatorKind kind) {
      for (auto const& kernel : catalogue)
        if (kernel.kind == kind) return TileChoice{kernel, 1};
      return TileChoice{};
    };
    auto const attention =
        import_hf_config(shipped("llama-3-8b"), "llama-3-8b", {"attention", 300, 3, 77, 2, ""});
    auto const conv = import_conv_network(shipped("vgg-19"), "vgg-19", {"14x14x256", 3});
    for (auto const* graph : {&*attention, &*conv}) {
      std::vector<TileChoice> choices;
      for (auto const& op : graph->operators) choices.push_back(first(op.kind));
      auto const pipeline = tile(*graph, choices);
      ASSERT_TRUE(pipeline) << to_text(pipeline.error());
      expect_round_trip(*pipeline);
    }
  }
}

TEST(WorkloadJson, a_described_pipeline_survives_the_round_trip) {
  PipelineBuilder p("p");
  auto [x, y, z] = p.dims("x", "y", "z");
  auto a = p.stage("a", {x = 24, y = 4}).splits(3).kernel("k").cost({1.5e300, 0.1, 7, 3});
  auto b = p.stage("b", {x = 8, y = 4, z = 2}).reads("b", "w", 1.0 / 3, 2e9).resources({96, 255, 1024});
  p.depends(b(x, y, z), a(3 * x, y), a(range(x + 1 - z, x - (z + y)), clamp(y - 1)), a(min(x, z) % 5, 3))
      .on_complete(OnComplete::reduce_into_peer);
  auto const pipeline = p.build();
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  expect_round_trip(*pipeline);
}

}  // namespace
}  // namespace tessera
