// SPDX-License-Identifier: Apache-2.0
// Attention as the middle stage of a planned chain: its tiles wait for tiles of q, k and v, some of which
// come late, and others wait for its tiles.
#include "attention_gpu/attention_case.hpp"
#include "attention_gpu/copy_tiles.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera::attention_sm90 {
namespace {

using support::Policy;

constexpr int k_heads = 4, k_size = 128, k_rows = 1000, k_width = 3 * k_heads * k_size;
constexpr int k_late_ns = 200'000;

Dependence reads(int consumer, int producer, char const* operand, TileExpr x, TileExpr rows_end,
                 bool one_row) {
  auto const y = TileExpr::dimension(1);
  Dependence d;
  d.consumer = consumer;
  d.producer = producer;
  d.operand = operand;
  d.accesses = {Access{{{x, x + TileExpr::constant(1), false},
                        {one_row ? y : TileExpr::constant(0), std::move(rows_end), false}}}};
  return d;
}

/// Copies of q, k and v into one matrix, a head of one of them to a tile; attention behind a causal mask; a
/// copy of its results. Blocks of `tile_queries` queries, which a tile of q, k and v holds one or two of.
Pipeline pipeline(int tile_queries) {
  auto const problem = problem_of(k_size, k_heads, k_heads, k_rows);
  auto const info = kernel_for(problem, tile_queries).value();
  auto const tiles = tiles_of(problem, tile_queries);
  int const copied = (k_rows + k_copied_rows - 1) / k_copied_rows, share = k_copied_rows / tile_queries;
  auto const stage = [](char const* name, int columns, int rows, Resources resources) {
    Stage one;
    one.name = one.output = name;
    one.grid = {{"x", columns}, {"y", rows}};
    one.resources = resources;
    return one;
  };
  Pipeline p;
  p.name = "attention";
  p.stages = {stage("qkv", 3 * k_heads, copied, {256, 64, 0}),
              stage("attention", k_heads, tiles.query_blocks, {info.threads, 168, info.shared_bytes}),
              stage("out", k_heads, copied, {256, 64, 0})};
  auto const x = TileExpr::dimension(0), y = TileExpr::dimension(1), one = TileExpr::constant(1);
  auto const row = floor_div(y, share), end = row + one;
  auto q = reads(1, 0, "a", x, end, true);
  q.accesses.front() = Access{{{x, x + one, false}, {row, end, false}}};
  p.dependences = {q, reads(1, 0, "b", x + TileExpr::constant(k_heads), end, false),
                   reads(1, 0, "c", x + TileExpr::constant(2 * k_heads), end, false)};
  auto out = reads(2, 1, "a", x, y + one, true);
  out.accesses.front() = Access{
      {{x, x + one, false},
       {y * share, minimum(y * share + TileExpr::constant(share), TileExpr::constant(tiles.query_blocks)),
        false}}};
  p.dependences.push_back(out);
  return p;
}

/// A chain on operands of its own.
class PlannedAttention {
 public:
  explicit PlannedAttention(int tile_queries) : tile_queries_(tile_queries), whole_(problem(), {}) {
    whole_.check(tile_queries);
    source_.resize(static_cast<std::size_t>(k_rows) * k_width);
    constexpr std::size_t row_size = static_cast<std::size_t>(k_heads) * k_size;
    for (std::size_t row = 0; row < k_rows; ++row)
      for (std::size_t i = 0; i < row_size; ++i) {
        source_[row * k_width + i] = whole_.host_q()[row * row_size + i];
        source_[row * k_width + row_size + i] = whole_.host_k()[row * row_size + i];
        source_[row * k_width + 2 * row_size + i] = whole_.host_v()[row * row_size + i];
      }
    from_.upload(source_);
    lost_.upload({-1});
    clear();
  }

  static Problem problem() {
    auto p = problem_of(k_size, k_heads, k_heads, k_rows);
    p.causal = true;
    return p;
  }

  Chain chain(Plan const& plan, double deadline = 2) {
    auto in_matrix = problem();
    in_matrix.q.row = in_matrix.k.row = in_matrix.v.row = k_width;
    constexpr int part = k_heads * k_size;
    EXPECT_TRUE(prepare(in_matrix));
    StageKernel attention;
    attention.block.x = static_cast<unsigned>(kernel_for(in_matrix, tile_queries_)->threads);
    attention.enqueue = [this, in_matrix](ChainViews const& views, GpuStream stream, bool early) {
      Call call;
      call.problem = in_matrix;
      call.q = qkv_.get();
      call.k = qkv_.get() + part;
      call.v = qkv_.get() + 2 * part;
      call.out = out_.get();
      call.tile_queries = tile_queries_;
      call.stage = views.stages[1];
      call.memory = views.memory;
      call.watch = views.watch();
      call.programmatic = early;
      call.shared_percent = views.shared_percent;
      auto const launched = launch(call, stream);
      EXPECT_TRUE(launched) << to_text(launched.error());
      return launched ? 0 : 1;
    };
    ChainOptions options;
    options.deadline_seconds = deadline;
    options.dispatches_in_launch_order = true;
    auto made = Chain::make(
        plan,
        {copy_kernel(plan, 0, {from_.get(), qkv_.get(), k_width, k_rows, k_size, k_late_ns, lost_.get()}),
         attention, copy_kernel(plan, 2, {out_.get(), copied_.get(), part, k_rows, k_size, 0, nullptr})},
        options);
    if (!made) throw std::runtime_error(to_text(made.error()));
    return std::move(*made);
  }

  void lose(int tile) { lost_.upload({tile}); }
  void clear() {
    qkv_.fill(0xff);
    out_.fill(0xff);
    copied_.fill(0xff);
  }
  /// The last stage's results are those of the launch without a plan, bit by bit.
  void expect_right() {
    auto const got = copied_.download();
    auto const expected = whole_.results();
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (got[i] != expected[i] && wrong++ == 0) first = i;
    EXPECT_EQ(wrong, 0U) << "the first at row " << first / (k_heads * k_size) << ", column "
                         << first % (k_heads * k_size) << ": " << got[first] << ", not " << expected[first];
  }

 private:
  int tile_queries_;
  Case whole_;
  std::vector<Bits> source_;
  gpu::DeviceBuffer<Bits> from_{static_cast<std::size_t>(k_rows) * k_width},
      qkv_{static_cast<std::size_t>(k_rows) * k_width},
      out_{static_cast<std::size_t>(k_rows) * k_heads * k_size},
      copied_{static_cast<std::size_t>(k_rows) * k_heads * k_size};
  gpu::DeviceBuffer<int> lost_{1};
};

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr Mechanism k_mechanisms[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                      Mechanism::pdl_tiles};

TEST(AttentionInAChain, WaitsForLateTilesAndPosts) {
  auto const h200 = machine("h200").value();
  for (int const tile_queries : {128, 64}) {
    PlannedAttention data(tile_queries);
    for (auto const mechanism : k_mechanisms)
      for (auto const policy : {Policy::tile_sync, Policy::row_sync})
        for (bool const ordered : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << "mechanism " << static_cast<int>(mechanism) << ", " << support::name_of(policy)
                       << ", ordered " << ordered << ", tiles of " << tile_queries);
          auto const plan = support::make_plan(pipeline(tile_queries), h200, mechanism, policy,
                                               {.avoid_custom_order = !ordered});
          auto chain = data.chain(plan);
          for (int i = 0; i < 5; ++i) {
            data.clear();
            ASSERT_OK(chain.launch(nullptr));
            ASSERT_OK(chain.finish());
            data.expect_right();
          }
          auto graph = chain.capture();
          ASSERT_OK(graph);
          data.clear();
          for (int i = 0; i < 3; ++i) ASSERT_OK(graph->launch(nullptr));
          ASSERT_OK(chain.finish());
          data.expect_right();
        }
  }
}

TEST(AttentionInAChain, ATileThatIsNotPostedIsNamedAndTheNextLaunchIsRight) {
  auto const h200 = machine("h200").value();
  PlannedAttention data(128);
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel}) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    auto const plan = support::make_plan(pipeline(128), h200, mechanism, Policy::tile_sync);
    auto chain = data.chain(plan, 0.05);
    ASSERT_OK(chain.launch(nullptr));
    ASSERT_OK(chain.finish());
    // Of q, of k and of v: head 1, the rows from 256.
    for (int const part : {0, 1, 2}) {
      data.clear();
      data.lose(2 * 3 * k_heads + part * k_heads + 1);
      ASSERT_OK(chain.launch(nullptr));
      auto const stalled = chain.finish();
      ASSERT_FALSE(stalled) << "a tile was missing, and nothing waited for it";
      EXPECT_EQ(stalled.error().front().code, "E0520");
      // The tile behind it waits as long: whichever gives up first is named.
      auto const lost = "missing qkv(" + std::to_string(part * k_heads + 1) + ", 2)";
      EXPECT_THAT(to_text(stalled.error()),
                  AnyOf(AllOf(HasSubstr("attention tile (1, "), HasSubstr(lost)),
                        AllOf(HasSubstr("out tile (1, "), HasSubstr("missing attention(1, "))));
      if (part == 1) std::printf("%s\n", to_text(stalled.error()).c_str());
      data.lose(-1);
      data.clear();
      ASSERT_OK(chain.launch(nullptr));
      ASSERT_OK(chain.finish());
      data.expect_right();
    }
  }
}

}  // namespace
}  // namespace tessera::attention_sm90
