// SPDX-License-Identifier: Apache-2.0
// Pairs of GEMMs as plans, under policies of every kind: what each stage wrote is what plain arithmetic makes
// of what it read, launch after launch with the same bits, and a wait that is never met names its tile.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <regex>

#include "kernels/bindings/families.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/check/check.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/run/bindings.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

constexpr int k_replays = 300;
constexpr double k_allowed = 2e-3;
// No multiples of tiles.
constexpr int k_tokens = 500, k_model = 1544, k_hidden = 2056;

struct Free {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(std::size_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  return Memory(memory);
}

/// d = gelu(x * w1^T) * w2^T by two kernels.
CheckedPipeline pair_of(char const* first, char const* second, NamedPolicy const& policy) {
  OperatorGraph graph;
  graph.name = "mlp";
  Operator up, down;
  up.name = "up";
  up.epilogue = Epilogue::gelu;
  up.m = down.m = k_tokens;
  up.n = down.k = k_hidden;
  up.k = down.n = k_model;
  up.inputs = {{"a", "x", "", {}}, {"b", "w1", "", {}}};
  down.name = "down";
  down.inputs = {{"a", "up", "up", {}}, {"b", "w2", "", {}}};
  graph.operators = {up, down};
  auto pipeline =
      tile(graph, {{*shipped_kernels().find(first), 1}, {*shipped_kernels().find(second), 1}}).value();
  pipeline.dependences[0].policy = policy;
  return check(pipeline).value();
}

/// Tensors of the pair on the device.
class Buffers {
 public:
  explicit Buffers(Pipeline const& pipeline) {
    unsigned long long seed = 1;
    for (auto const& buffer : pipeline.buffers) {
      Tensor tensor;
      tensor.rows = buffer.rows;
      tensor.columns = buffer.columns;
      memory_.push_back(allocate(2 * count(tensor)));
      tensor.data = memory_.back().get();
      if (buffer.name != "up" && buffer.name != "down")
        bench::fill_random(tensor.data, count(tensor), k_type, seed++, 0.1F, nullptr);
      tensors[buffer.name] = tensor;
    }
    sums_ = allocate(sizeof(float) * k_tokens * k_hidden);
    results_ = allocate(sizeof(float) * k_tokens * k_hidden);
  }
  void poison() const {
    for (auto const* name : {"up", "down"})
      bench::poison(tensors.at(name).data, count(tensors.at(name)), nullptr);
  }
  double error(char const* a, char const* b, char const* d, bool gelu) const {
    auto const &left = tensors.at(a), &right = tensors.at(b), &made = tensors.at(d);
    auto *sums = static_cast<float*>(sums_.get()), *results = static_cast<float*>(results_.get());
    bench::reference_gemm(left.data, right.data, sums, static_cast<int>(left.rows),
                          static_cast<int>(right.rows), static_cast<int>(left.columns), k_type, nullptr);
    if (gelu)
      bench::reference_activation(sums, bench::ReferenceActivation::gelu, count(made), results, nullptr,
                                  k_type, nullptr);
    return bench::relative_error(made.data, gelu ? results : sums, count(made), k_type, nullptr);
  }
  static std::size_t count(Tensor const& tensor) {
    return static_cast<std::size_t>(tensor.rows * tensor.columns);
  }

  Tensors tensors;

 private:
  static constexpr auto k_type = bench::ElementType::bf16;
  std::vector<Memory> memory_;
  Memory sums_, results_;
};

NamedPolicy random_table(TileGrid const& grid, unsigned seed) {
  std::mt19937 random(seed);
  auto const tiles = static_cast<std::size_t>(grid.tiles());
  std::vector<std::int32_t> table(tiles);
  auto const semaphores = static_cast<std::int32_t>(1 + random() % tiles);
  for (std::size_t i = 0; i < tiles; ++i)
    // Each has a tile.
    table[i] = static_cast<std::int32_t>(i) < semaphores
                   ? static_cast<std::int32_t>(i)
                   : static_cast<std::int32_t>(random() % static_cast<unsigned>(semaphores));
  std::shuffle(table.begin(), table.end(), random);
  return {"any", table_map(table)};
}

struct Kernels {
  char const* first;
  char const* second;
};
constexpr Kernels k_kernels[] = {{"gemm_128x128x64_2x1", "gemm_128x192x64_2x1"},
                                 {"gemm_128x256x64_2x1", "gemm_80x192x64_2x1_swapped"},
                                 {"gemm_112x192x64_2x1_swapped", "gemm_128x128x64_2x1"}};

Plan plan_of(Kernels const& kernels, NamedPolicy const& policy) {
  Recipe recipe;
  recipe.mechanism = Mechanism::pdl_tiles;
  auto const checked = pair_of(kernels.first, kernels.second, policy);
  recipe.policies = {{policy.name, policy.map}};
  return build_plan(checked, machine("h200").value(), recipe).value();
}

std::vector<NamedPolicy> policies_for(Kernels const& kernels) {
  auto const& grid = pair_of(kernels.first, kernels.second, each_tile()).pipeline().stages[0].tile_grid();
  return {each_tile(),
          rows(),
          rows(2),
          strided(3),
          whole_grid(),
          product({{Grouping::block, 3}, {Grouping::stride, 2}}, "ragged"),
          random_table(grid, 1),
          random_table(grid, 2)};
}

TEST(GemmPolicies, AllRunOnTheSameCompiledTiles) {
  for (auto const& kernels : k_kernels)
    for (auto const& policy : policies_for(kernels)) {
      auto const plan = plan_of(kernels, policy);
      SCOPED_TRACE(describe(plan));
      Buffers const buffers(plan.pipeline);
      auto executable = Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
      ASSERT_TRUE(executable) << to_text(executable.error());
      buffers.poison();
      ASSERT_TRUE(executable->launch(nullptr));
      auto const first = executable->finish();
      ASSERT_TRUE(first) << to_text(first.error());
      ASSERT_LE(buffers.error("x", "w1", "up", true), k_allowed);
      ASSERT_LE(buffers.error("up", "w2", "down", false), k_allowed);
      auto const& down = buffers.tensors.at("down");
      auto const kept = allocate(2 * Buffers::count(down));
      ASSERT_EQ(cudaMemcpy(kept.get(), down.data, 2 * Buffers::count(down), cudaMemcpyDeviceToDevice),
                cudaSuccess);
      auto graph = executable->capture();
      ASSERT_TRUE(graph) << to_text(graph.error());
      for (int i = 0; i < k_replays; ++i) {
        if (i % 20 == 0) buffers.poison();
        ASSERT_TRUE(graph->launch(nullptr));
        if (i % 20 == 0)
          ASSERT_EQ(bench::differing(down.data, kept.get(), Buffers::count(down), nullptr), 0U) << i;
      }
      auto const replayed = executable->finish();
      ASSERT_TRUE(replayed) << to_text(replayed.error());
      ASSERT_EQ(bench::differing(down.data, kept.get(), Buffers::count(down), nullptr), 0U);
    }
}

TEST(GemmPolicies, AWaitThatIsNeverMetNamesItsTile) {
  for (auto const& policy : {each_tile(), rows(2)}) {
    auto const plan = plan_of(k_kernels[0], policy);
    Buffers const buffers(plan.pipeline);
    Scratch scratch;
    auto kernels = bind_kernels(plan, shipped_kernels(), shipped_bindings(), buffers.tensors, scratch);
    ASSERT_TRUE(kernels) << to_text(kernels.error());
    // The first GEMM never runs.
    (*kernels)[0].enqueue = [](ChainViews const&, GpuStream, bool) { return 0; };
    ChainOptions options;
    options.deadline_seconds = 0.2;
    auto chain = Chain::make(plan, *kernels, options);
    ASSERT_TRUE(chain) << to_text(chain.error());
    ASSERT_TRUE(chain->launch(nullptr));
    auto const outcome = chain->finish();
    ASSERT_FALSE(outcome);
    auto const text = to_text(outcome.error());
    // Rows of tiles are the same in both. Whichever waits reads its row of the producer from the start.
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found,
                                  std::regex(R"(^error E0520: down tile \(\d+, (\d+)\) waits for up\()")))
        << text;
    auto const row = found[1].str();
    EXPECT_THAT(text, testing::HasSubstr("missing up(0, " +
                                         (policy.map.dimension[1].grouping == Grouping::block
                                              ? std::to_string(std::stoi(row) / 2 * 2)
                                              : row) +
                                         ")"));
  }
}

}  // namespace
}  // namespace tessera
