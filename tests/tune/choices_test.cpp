// SPDX-License-Identifier: Apache-2.0
// What a tuner varies, without a GPU: choices become the plans that they say, and names tell plans apart.
#include "tune/choices.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/tune/plans.hpp"
#include "tessera/tune/tune.hpp"
#include "tune/plan_name.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;

OperatorGraph chain(int products, ElementType type = ElementType::bf16) {
  OperatorGraph graph;
  graph.name = "chain";
  graph.type = type;
  for (int i = 0; i < products; ++i) {
    Operator op;
    op.name = "p" + std::to_string(i);
    op.m = 4096;
    op.n = op.k = 2048;
    auto const before = i == 0 ? std::string("x") : "p" + std::to_string(i - 1);
    op.inputs = {{"a", before, i == 0 ? "" : before, ReadPattern::rows},
                 {"b", "w" + std::to_string(i), "", ReadPattern::rows}};
    graph.operators.push_back(op);
  }
  return graph;
}

StageChoice by(char const* kernel) { return {{*shipped_kernels().find(kernel), 1}, {}, ""}; }

MachineProfile h200() { return machine("h200").value(); }

TEST(Choices, BecomeThePlanThatTheySay) {
  auto first = by("gemm_128x256x64_2x1"), second = by("gemm_128x128x64_2x1");
  first.how = {4, 132};
  second.variant = "its own";
  auto const plan = plan_of(chain(2), {{first, second}, Mechanism::pdl_tiles, 3, true, true}, h200());
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->launches.front().start, LaunchStart::early);
  EXPECT_EQ(plan->launches[1].start, LaunchStart::early);
  EXPECT_EQ(plan->stages[0].order.bands->rows, 4);
  EXPECT_EQ(plan->stages[0].persistent_blocks, 132);
  EXPECT_EQ(plan->stages[1].variant, "its own");
  EXPECT_TRUE(plan->stages[1].reorder_loads);
  ASSERT_EQ(plan->semaphores.size(), 1u);
  EXPECT_EQ(plan->semaphores[0].map.dimension[0].width, 3);
  auto const row =
      plan_of(chain(2), {{first, second}, Mechanism::pdl_tiles, k_whole_row, true, true}, h200());
  EXPECT_EQ(row->semaphores[0].policy, "RowSync");
}

TEST(Choices, ThatAKernelCannotBeAreRefused) {
  auto const library = by("cublaslt"), own = by("gemm_128x128x64_2x1");
  EXPECT_TRUE(plan_of(chain(2), {{library, own}, Mechanism::pdl, 1, true, false}, h200()));
  EXPECT_FALSE(plan_of(chain(2), {{own, library}, Mechanism::pdl, 1, true, false}, h200()));
  EXPECT_FALSE(plan_of(chain(2), {{library, own}, Mechanism::pdl_tiles, 1, true, false}, h200()));
  EXPECT_FALSE(plan_of(chain(2), {{library, own}, Mechanism::pdl, 1, true, true}, h200())) << "chained";
}

TEST(PlanName, TellsLaunchesApart) {
  std::set<std::string> names, kinds;
  int plans = 0;
  for (int const band : {1, 8, 0})
    for (int const blocks : {0, 132})
      for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles})
        for (int const columns : {1, k_whole_row})
          for (bool const early : {false, true}) {
            if (columns != 1 && mechanism != Mechanism::pdl_tiles) continue;
            if (early && mechanism == Mechanism::stream_order) continue;
            auto first = by("gemm_128x256x64_2x1");
            first.how = {band, blocks};
            auto const plan = plan_of(
                chain(2), {{first, by("gemm_128x128x64_2x1")}, mechanism, columns, early, early}, h200());
            ASSERT_TRUE(plan) << to_text(plan.error());
            ++plans;
            names.insert(plan_name(*plan));
            kinds.insert(kernels_of(*plan));
          }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(plans));
  EXPECT_LT(kinds.size(), names.size());
}

TEST(Combinations, AreAllOrOneByOneWhereTheyAreTooMany) {
  auto const a = by("gemm_128x256x64_2x1"), b = by("gemm_128x128x64_2x1"), c = by("cublaslt");
  EXPECT_EQ(combinations({{a, b}, {a, b, c}}, 16).size(), 6u);
  auto const few = combinations({{a, b}, {a, b, c}}, 4);
  std::vector<std::string> names;
  for (auto const& one : few) names.push_back(one[0].tile.kernel.name + " " + one[1].tile.kernel.name);
  EXPECT_THAT(
      names, ElementsAre("gemm_128x256x64_2x1 gemm_128x256x64_2x1", "gemm_128x128x64_2x1 gemm_128x256x64_2x1",
                         "gemm_128x256x64_2x1 gemm_128x128x64_2x1", "gemm_128x256x64_2x1 cublaslt"));
  EXPECT_TRUE(combinations({{a}, {}}, 16).empty());
}

TEST(LibraryPlan, IsTheLibrariesOneAfterTheOther) {
  auto const plan = library_plan(chain(3), shipped_kernels(), h200());
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_TRUE(is_stream_order(*plan));
  EXPECT_TRUE(is_library_plan(*plan, shipped_kernels()));
  EXPECT_EQ(families_of(*plan, shipped_kernels()), "cublaslt");
  Registry const none;
  EXPECT_EQ(to_text(library_plan(chain(1), none, h200()).error()),
            "error E0305: no registered kernel computes p0 on h200\n"
            "   hint: register one (docs/extending.md), or choose another type or size");
}

}  // namespace
}  // namespace tessera
