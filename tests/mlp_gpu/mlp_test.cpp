// SPDX-License-Identifier: Apache-2.0
// mlp() against an fp32 reference, from poisoned outputs, for every number of tokens; then what may go wrong
// when sizes, graphs and streams mix.
#include <algorithm>
#include <deque>
#include <random>

#include "kernels/bindings/families.hpp"
#include "kernels/mlp/mlp.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"
#include "tessera/tune/key.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera::mlp {
namespace {

constexpr double allowed = 2e-3;
// Neither a multiple of every tile nor a power of two.
constexpr int model = 1544, hidden = 1032;

struct Kind {
  Form form;
  ElementType type;
};
std::string name_of(testing::TestParamInfo<Kind> const& kind) {
  return std::string(kind.param.form == Form::gelu ? "gelu" : "swiglu") +
         (kind.param.type == ElementType::bf16 ? "_bf16" : "_fp16");
}

class MlpOnGpu : public testing::TestWithParam<Kind> {
 protected:
  Shape shape(int tokens) const { return {tokens, model, hidden, GetParam().form, GetParam().type}; }
  Stream stream;
};
INSTANTIATE_TEST_SUITE_P(Kinds, MlpOnGpu,
                         testing::Values(Kind{Form::gelu, ElementType::bf16},
                                         Kind{Form::gelu, ElementType::fp16},
                                         Kind{Form::swiglu, ElementType::bf16},
                                         Kind{Form::swiglu, ElementType::fp16}),
                         name_of);

void expect_right(Mlp& block, Operands const& operands, int tokens, cudaStream_t stream) {
  operands.poison_result();
  auto const launched = block.launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream);
  ASSERT_TRUE(launched) << to_text(launched.error());
  double const error = operands.error(tokens);
  EXPECT_LE(error, allowed) << tokens << " tokens, " << plan_name(block.choice(tokens).value());
  if (tokens % 37 == 0) {
    EXPECT_TRUE(operands.rest_is_untouched(tokens)) << tokens;
  }
}

/// A cache that gives each size another plan, of all kinds.
TuneCache mixed_cache(Shape const& most) {
  TuneCache cache;
  auto const bindings = shipped_bindings();
  std::size_t turn = 0;
  for (int tokens = 1; tokens <= most.tokens; tokens += 1 + tokens / 8) {
    Shape shape = most;
    shape.tokens = tokens;
    auto const plans = some_plans(shape);
    TuneEntry entry;
    entry.key = tune_key(graph_of(shape), bindings).value();
    entry.plan = plans[turn++ % plans.size()];
    cache.entries.push_back(std::move(entry));
  }
  return cache;
}

TEST_P(MlpOnGpu, IsRightForEveryNumberOfTokensWithoutACache) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Operands const operands(shape(300), seed, stream);
    MlpOptions options;
    options.use_cache = false;
    auto block = Mlp::make(shape(300), options);
    ASSERT_TRUE(block) << to_text(block.error());
    for (int tokens = 1; tokens <= 300; ++tokens) expect_right(*block, operands, tokens, stream);
    EXPECT_TRUE(block->finish(stream));
  }
}

TEST_P(MlpOnGpu, IsRightForEveryNumberOfTokensWithACacheOfAllKinds) {
  auto const cache = mixed_cache(shape(300));
  MlpOptions options;
  options.cache = &cache;
  for (unsigned seed = 4; seed <= 6; ++seed) {
    Operands const operands(shape(300), seed, stream);
    auto block = Mlp::make(shape(300), options);
    ASSERT_TRUE(block) << to_text(block.error());
    EXPECT_TRUE(block->notes().empty());
    for (auto const& entry : cache.entries)
      EXPECT_EQ(plan_name(block->choice(static_cast<int>(rows_of(entry.key.workload))).value()),
                plan_name(entry.plan));
    for (int tokens = 300; tokens >= 1; --tokens) expect_right(*block, operands, tokens, stream);
    auto const finished = block->finish(stream);
    EXPECT_TRUE(finished) << to_text(finished.error());
  }
}

TEST_P(MlpOnGpu, IsRightForManyTokensWithEveryKindOfPlan) {
  for (int const tokens : {512, 768, 1024, 1536, 2048, 4096}) {
    Operands const operands(shape(tokens), 7, stream);
    std::size_t turn = 0;
    for (auto const& plan : some_plans(shape(tokens))) {
      if (tokens > 1024 && turn++ % 3 != 0) continue;
      MlpOptions options;
      options.only = plan;
      auto block = Mlp::make(shape(tokens), options);
      ASSERT_TRUE(block) << to_text(block.error());
      EXPECT_EQ(plan_name(block->choice(tokens).value()), plan_name(plan));
      expect_right(*block, operands, tokens, stream);
      expect_right(*block, operands, tokens, stream);
    }
  }
}

// Layers, each of which reads what the one before wrote, and writes where it read. A short first product
// behind a long second one: if a chained launch did not wait, it would read rows that are not there yet.
TEST_P(MlpOnGpu, LayersFollowEachOther) {
  Shape const layer{1024, 512, 8192, GetParam().form, GetParam().type};
  Operands const operands(layer, 12, stream);
  std::size_t const bytes = std::size_t{1024} * 512 * 2;
  std::vector<char> const poison(bytes, 0x7F);
  std::vector<char> input(bytes);
  ASSERT_EQ(cudaMemcpy(input.data(), operands.x, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  int chained = 0;
  for (auto const& plan : some_plans(layer)) {
    if (plan.launches.front().start != LaunchStart::early) continue;
    ++chained;
    MlpOptions options;
    options.only = plan;
    auto block = Mlp::make(layer, options);
    ASSERT_TRUE(block) << to_text(block.error());
    auto const layers = [&](bool one_by_one) {
      cudaMemcpy(operands.x, input.data(), bytes, cudaMemcpyHostToDevice);
      cudaMemcpy(operands.y, poison.data(), bytes, cudaMemcpyHostToDevice);
      for (int i = 0; i < 9; ++i) {
        void* const from = i % 2 == 0 ? operands.x : operands.y;
        void* const to = i % 2 == 0 ? operands.y : operands.x;
        auto const launched = block->launch(from, operands.w1, operands.w2, to, layer.tokens, stream);
        EXPECT_TRUE(launched) << to_text(launched.error());
        if (one_by_one) cudaStreamSynchronize(stream);
      }
      cudaStreamSynchronize(stream);
      std::vector<char> result(bytes);
      cudaMemcpy(result.data(), operands.y, bytes, cudaMemcpyDeviceToHost);
      return result;
    };
    auto const wanted = layers(true);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(layers(false), wanted) << plan_name(plan);
  }
  EXPECT_GE(chained, 5);
}

/// Device memory with a border behind it that nobody may write.
class Lent {
 public:
  explicit Lent(std::size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(cudaMalloc(&data_, bytes + border), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0x7F, bytes + border), cudaSuccess);
  }
  ~Lent() { cudaFree(data_); }
  Lent(Lent const&) = delete;
  Lent& operator=(Lent const&) = delete;

  LentScratch scratch() const { return {data_, bytes_}; }
  bool border_is_untouched() const {
    std::vector<char> behind(border);
    EXPECT_EQ(cudaMemcpy(behind.data(), static_cast<char*>(data_) + bytes_, border, cudaMemcpyDeviceToHost),
              cudaSuccess);
    return std::all_of(behind.begin(), behind.end(), [](char c) { return c == 0x7F; });
  }

 private:
  static constexpr std::size_t border = 4096;
  void* data_ = nullptr;
  std::size_t bytes_;
};

TEST_P(MlpOnGpu, IsRightInMemoryThatEachLaunchIsLentAndWithoutEarlyWeights) {
  for (int const tokens : {100, 300}) {
    Operands const operands(shape(tokens), 13, stream);
    for (auto const& plan : some_plans(shape(tokens))) {
      MlpOptions options;
      options.only = plan;
      options.lends_scratch = true;
      options.early_weights = false;
      options.address_sets = 3;
      auto block = Mlp::make(shape(tokens), options);
      ASSERT_TRUE(block) << to_text(block.error());
      EXPECT_EQ(block->choice(tokens).value().launches.front().start, LaunchStart::in_order);
      auto const bytes = block->scratch_bytes(tokens);
      ASSERT_TRUE(bytes) << to_text(bytes.error());
      EXPECT_GE(*bytes, std::size_t{2} * hidden * static_cast<std::size_t>(tokens));
      std::deque<Lent> lent;  // more than addresses are kept
      for (int i = 0; i < 5; ++i) lent.emplace_back(*bytes);
      for (int i = 0; i < 7; ++i) {
        auto const& one = lent[static_cast<std::size_t>(i) % lent.size()];
        operands.poison_result();
        auto const launched =
            block->launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream, one.scratch());
        ASSERT_TRUE(launched) << to_text(launched.error());
        EXPECT_LE(operands.error(tokens), allowed) << tokens << " tokens, " << plan_name(plan);
        EXPECT_TRUE(one.border_is_untouched()) << plan_name(plan);
      }
      EXPECT_TRUE(block->finish(stream));
    }
  }
}

TEST_P(MlpOnGpu, SizesInAnyOrderBetweenReplaysOfAGraph) {
  auto const cache = mixed_cache(shape(300));
  MlpOptions options;
  options.cache = &cache;
  Operands const operands(shape(300), 8, stream);
  auto block = Mlp::make(shape(300), options);
  ASSERT_TRUE(block);
  // Sizes that come for the first time while the stream is captured.
  std::vector<std::pair<int, cudaGraphExec_t>> graphs;
  for (int const tokens : {1, 17, 100, 128, 200, 299}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    auto const launched = block->launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream);
    EXPECT_TRUE(launched) << to_text(launched.error());
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    graphs.push_back({tokens, executable});
  }
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0) {
      expect_right(*block, operands, 1 + static_cast<int>(random() % 300), stream);
    } else {
      auto const& [tokens, graph] = graphs[random() % graphs.size()];
      operands.poison_result();
      ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
      EXPECT_LE(operands.error(tokens), allowed) << tokens << " tokens, replayed";
    }
  }
  for (auto const& [tokens, graph] : graphs) cudaGraphExecDestroy(graph);
  EXPECT_TRUE(block->finish(stream));
}

TEST_P(MlpOnGpu, TheOneCallInTwoStreamsAtOnce) {
  Stream other;
  Operands const a(shape(700), 10, stream);
  Operands const b(shape(700), 11, other);
  for (int const tokens : {5, 300, 128, 700, 64}) {
    a.poison_result();
    b.poison_result();
    cudaDeviceSynchronize();
    for (int i = 0; i < 5; ++i) {
      auto const one = mlp(a.x, a.w1, a.w2, a.y, shape(tokens), stream);
      ASSERT_TRUE(one) << to_text(one.error());
      auto const two = mlp(b.x, b.w1, b.w2, b.y, shape(tokens), other);
      ASSERT_TRUE(two) << to_text(two.error());
    }
    EXPECT_LE(a.error(tokens), allowed) << tokens;
    EXPECT_LE(b.error(tokens), allowed) << tokens;
  }
}

TEST(GatedWeights, AreInterleavedRowByRow) {
  constexpr int rows = 24, columns = 40;
  std::vector<unsigned short> gate(rows * columns), up(rows * columns), both(2 * rows * columns);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    gate[i] = static_cast<unsigned short>(i);
    up[i] = static_cast<unsigned short>(10000 + i);
  }
  void *g = nullptr, *u = nullptr, *w = nullptr;
  for (void** one : {&g, &u}) ASSERT_EQ(cudaMalloc(one, gate.size() * 2), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&w, both.size() * 2), cudaSuccess);
  cudaMemcpy(g, gate.data(), gate.size() * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(u, up.data(), up.size() * 2, cudaMemcpyHostToDevice);
  ASSERT_EQ(kernels::interleave_gate_up(g, u, w, rows, columns, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(both.data(), w, both.size() * 2, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      auto const at = [&](int r) { return both[static_cast<std::size_t>(r * columns + column)]; };
      EXPECT_EQ(at(2 * row), gate[static_cast<std::size_t>(row * columns + column)]);
      EXPECT_EQ(at(2 * row + 1), up[static_cast<std::size_t>(row * columns + column)]);
    }
  EXPECT_EQ(kernels::interleave_gate_up(g, u, w, rows, 12, nullptr), cudaErrorInvalidValue);
  for (auto* one : {g, u, w}) cudaFree(one);
}

}  // namespace
}  // namespace tessera::mlp
