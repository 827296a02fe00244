// SPDX-License-Identifier: Apache-2.0
// What the binding of gemm_sm90 refuses of a plan; no GPU is asked before that.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "kernels/bindings/families.hpp"
#include "tessera/check/check.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

class GemmBinding : public testing::Test {
 protected:
  GemmBinding() {
    OperatorGraph graph;
    graph.name = "mlp";
    Operator up, down;
    up.name = "up";
    up.epilogue = Epilogue::gelu;
    up.m = down.m = 512;
    up.n = down.k = 1024;
    up.k = down.n = 2048;
    up.inputs = {{"a", "x", "", {}}, {"b", "w1", "", {}}};
    down.name = "down";
    down.inputs = {{"a", "up", "up", {}}, {"b", "w2", "", {}}};
    graph.operators = {up, down};
    auto const& kernel = *shipped_kernels().find("gemm_128x128x64_2x1");
    Recipe recipe;
    recipe.mechanism = Mechanism::pdl_tiles;
    plan = build_plan(check(tile(graph, {{kernel, 1}, {kernel, 1}}).value()).value(), machine("h200").value(),
                      recipe)
               .value();
    for (auto const& buffer : plan.pipeline.buffers) {
      Tensor tensor;
      tensor.data = &memory;
      tensor.rows = buffer.rows;
      tensor.columns = buffer.columns;
      tensors[buffer.name] = tensor;
    }
  }

  /// The second launch waits, the first posts.
  std::string refusal(int launch) {
    auto const bound = bind_gemm_sm90({plan, launch, shipped_kernels(), tensors, scratch});
    return bound ? "accepted" : to_text(bound.error());
  }

  alignas(16) unsigned char memory[16] = {};
  Plan plan;
  Tensors tensors;
  Scratch scratch;
};

/// Where there is a GPU. Elsewhere all that is left to fail is loading the kernel.
testing::Matcher<std::string> bound() {
  int devices = 0;
  bool const here = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  return here ? testing::Matcher<std::string>("accepted")
              : testing::HasSubstr("error E0511: loading 128x128x64_2x1");
}

TEST_F(GemmBinding, TakesWhatThePlannerMakes) {
  for (int const launch : {0, 1}) EXPECT_THAT(refusal(launch), bound()) << launch;
}

TEST_F(GemmBinding, RefusesOrdersThatAreNoBandsOfItsClusters) {
  auto const bands = plan.stages[0].order;
  std::reverse(plan.stages[0].order.table.begin(), plan.stages[0].order.table.end());
  plan.stages[0].order.bands.reset();
  plan.stages[0].order.name = "backwards";
  EXPECT_EQ(
      refusal(0),
      "error E0560: order of up cannot run in kernel gemm_128x128x64_2x1: its tiles are taken in bands, not "
      "as \"backwards\" lists them\n   hint: plan with make_band_order()");
  plan.stages[0].order = make_band_order(plan.pipeline.stages[0], {4, 1, 2});
  EXPECT_EQ(
      refusal(0),
      "error E0560: order of up cannot run in kernel gemm_128x128x64_2x1: its clusters are 2 x 1 tiles, "
      "those of the order 1 x 2\n   hint: plan with make_band_order() for the kernel's clusters");
}

TEST_F(GemmBinding, TakesAnyPolicy) {
  auto const grid = plan.pipeline.stages[0].tile_grid();
  auto const policies = {rows(2), strided(3), whole_grid(),
                         NamedPolicy{"Diagonal", table_map(grid, [](Tile const& tile) -> long long {
                                       return (tile.at[0] + tile.at[1]) % 5;
                                     })}};
  for (auto const& policy : policies) {
    plan.semaphores[0].map = policy.map;
    plan.semaphores[0].count = policy.map.count(grid);
    for (int const launch : {0, 1}) EXPECT_THAT(refusal(launch), bound()) << policy.name;
  }
}

TEST_F(GemmBinding, RefusesOperandsThatItDoesNotRead) {
  plan.pipeline.dependences[0].operand = "c";
  EXPECT_EQ(refusal(1),
            "error E0560: waits of down cannot run in kernel gemm_128x128x64_2x1: it reads no operand \"c\"\n"
            "   hint: let others make operands a and b only");
}

TEST_F(GemmBinding, RefusesLaunchesAndSplitsThatItHasNot) {
  plan.launches[1].start = LaunchStart::beside;
  EXPECT_EQ(refusal(1),
            "error E0560: a launch beside others of down cannot run in kernel gemm_128x128x64_2x1: its "
            "blocks do not "
            "announce that they have started\n   hint: let the launch start early or in order");
  plan.launches[1].wait_kernel = true;
  EXPECT_EQ(
      refusal(0),
      "error E0560: a launch beside this one of up cannot run in kernel gemm_128x128x64_2x1: its blocks "
      "do not announce that they have started\n   hint: let the next launch start early or in order");
  plan.pipeline.stages[1].splits = 2;
  EXPECT_EQ(
      refusal(1),
      "error E0560: splits of down cannot run in kernel gemm_128x128x64_2x1: it is compiled for 1, not 2\n"
      "   hint: plan with the splits of the registry's kernel");
}

}  // namespace
}  // namespace tessera
