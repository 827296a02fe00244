// SPDX-License-Identifier: Apache-2.0
// A decoder layer: which tiles its norms, turned heads and products with residuals read, and what they cost,
// against a count element by element that knows nothing of tiles' expressions; and what is refused.
#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <set>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/describe/workload_key.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

enum Place { norm, qkv, turn, attention, output, second_norm, gate_up, down, stages };

struct Sizes {
  AttentionShape a;
  std::int64_t hidden = 8, inner = 8;
  bool shifts = false;
  std::vector<std::int64_t> prompts = {};  // of unequal length

  std::int64_t rows() const {
    if (prompts.empty()) return a.sequences * a.tokens;
    return std::accumulate(prompts.begin(), prompts.end(), std::int64_t{0});
  }
};

OperatorInput outside(char const* name, char const* buffer) { return {name, buffer, "", ReadPattern::rows}; }
OperatorInput from(char const* name, char const* producer, ReadPattern pattern = ReadPattern::rows) {
  return {name, producer, producer, pattern};
}

OperatorGraph layer_of(Sizes const& s) {
  auto const& a = s.a;
  auto const rows = s.rows(), width = a.query_heads * a.head_dim,
             columns = (a.query_heads + 2 * a.kv_heads) * a.head_dim;
  OperatorGraph graph;
  graph.name = "layer";
  graph.attention = a;
  auto const add = [&](char const* name, OperatorKind kind, Epilogue epilogue, std::int64_t n, std::int64_t k,
                       std::vector<OperatorInput> inputs) {
    graph.operators.push_back({name, kind, epilogue, rows, n, k, 1, std::move(inputs), "", {}});
  };
  add("norm", OperatorKind::norm, Epilogue::none, s.hidden, 1, {outside("a", "x")});
  add("qkv", OperatorKind::gemm, Epilogue::none, columns, s.hidden, {from("a", "norm"), outside("b", "w")});
  add("turn", OperatorKind::turn_heads, Epilogue::none, columns, a.head_dim,
      {from("a", "qkv"), outside("turns", "angles")});
  add("attention", OperatorKind::attention, Epilogue::none, width, a.head_dim,
      {from("a", "turn", ReadPattern::query_heads), from("b", "turn", ReadPattern::key_heads),
       from("c", "turn", ReadPattern::value_heads)});
  add("output", OperatorKind::gemm, Epilogue::residual, s.hidden, width,
      {from("a", "attention"), outside("b", "w_output"), outside("residual", "x")});
  add("second_norm", OperatorKind::norm, Epilogue::none, s.hidden, 1, {from("a", "output")});
  add("gate_up", OperatorKind::gemm, Epilogue::swiglu, 2 * s.inner, s.hidden,
      {from("a", "second_norm"), outside("b", "w_gate_up")});
  add("down", OperatorKind::gemm, Epilogue::residual, s.hidden, s.inner,
      {from("a", "gate_up"), outside("b", "w_down"), from("residual", "output", ReadPattern::same_tile)});
  if (!s.prompts.empty()) {
    graph.operators[attention].groups = s.prompts;
    graph.operators[turn].inputs.push_back(outside("positions", "positions"));
    graph.operators[attention].inputs.push_back(outside("offsets", "offsets"));
  }
  if (s.shifts) {
    graph.operators[turn].inputs.push_back(outside("shift", "qkv_biases"));
    graph.operators[second_norm].inputs.push_back(outside("shift", "output_biases"));
  }
  return graph;
}

TileChoice choice(Operator const& op, std::int64_t m, std::int64_t n, std::int64_t k = 8) {
  TileChoice result;
  result.kernel.name = "k_" + op.name;
  result.kernel.kind = op.kind;
  result.kernel.tile_m = static_cast<int>(m);
  result.kernel.tile_n = static_cast<int>(n);
  result.kernel.tile_k = static_cast<int>(k);
  result.kernel.splits = k_any_splits;
  result.kernel.forms = {{{ElementType::bf16}, {op.epilogue}, 2, {}}};
  return result;
}

struct Case {
  Sizes sizes;
  OperatorGraph graph;
  std::vector<TileChoice> choices;
};

Case some_case(std::mt19937& random) {
  auto const in = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  Case c;
  auto& a = c.sizes.a;
  a.sequences = in(1, 3);
  a.tokens = in(1, 16);
  a.kv_heads = in(1, 2);
  a.query_heads = a.kv_heads * in(1, 3);
  a.head_dim = in(1, 5);
  a.causal = in(0, 1) == 1;
  if (in(0, 1) == 1) {
    auto& prompts = c.sizes.prompts;
    for (auto count = in(1, 5); count > 0; --count) prompts.push_back(in(1, 12));
    a.sequences = std::ssize(prompts);
    a.tokens = *std::max_element(prompts.begin(), prompts.end());
    a.causal = true;
  }
  c.sizes.hidden = 4 * in(1, 6);
  c.sizes.inner = in(1, 20);
  c.sizes.shifts = in(0, 1) == 1;
  c.graph = layer_of(c.sizes);
  for (auto const& op : c.graph.operators) {
    bool const gated = op.epilogue == Epilogue::swiglu;
    c.choices.push_back(choice(op, in(1, 9), gated ? 2 * in(1, 6) : in(1, 12)));
    auto& one = c.choices.back();
    if (op.kind == OperatorKind::gemm)
      one.splits = static_cast<int>(in(1, std::min<std::int64_t>((op.k + 7) / 8, 3)));
    if (op.kind == OperatorKind::attention) one.kernel.tile_n = static_cast<int>(op.k);
    if (op.kind == OperatorKind::norm) one.kernel.tile_n = 32, one.kernel.tile_k = 4;
    if (op.kind == OperatorKind::turn_heads) {
      one.kernel.tile_n = static_cast<int>(op.k);
      one.kernel.whole = in(0, 2) == 0;
      if (one.kernel.whole) one.kernel.can.wait = one.kernel.can.post = false;
    }
  }
  return c;
}

/// Of the sequence that has a row: where it begins, and its tokens; and its first block of `tile` queries.
struct Sequence {
  std::int64_t first = 0, tokens = 0, first_block = 0;
};
Sequence sequence_with(Sizes const& sizes, std::int64_t row, std::int64_t tile = 1) {
  Sequence s;
  for (std::size_t i = 0;; ++i) {
    s.tokens = sizes.prompts.empty() ? sizes.a.tokens : sizes.prompts[i];
    if (row < s.first + s.tokens) return s;
    s.first += s.tokens, s.first_block += (s.tokens + tile - 1) / tile;
  }
}

/// Numbers of rows and columns of an operator's output, and the tile that has an element of it.
struct Output {
  Case const& c;
  Pipeline const& pipeline;
  int index;

  std::int64_t rows() const { return c.graph.operators[at()].m; }
  std::int64_t columns() const {
    auto const& op = c.graph.operators[at()];
    return op.epilogue == Epilogue::swiglu ? op.n / 2 : op.n;
  }
  std::int64_t tile_with(std::int64_t row, std::int64_t column) const {
    auto const& op = c.graph.operators[at()];
    auto const& kernel = c.choices[at()].kernel;
    auto const& a = c.sizes.a;
    Tile tile;
    if (op.kind == OperatorKind::attention) {
      auto const sequence = sequence_with(c.sizes, row, kernel.tile_m);
      tile.at[0] = static_cast<int>(column / a.head_dim);
      tile.at[1] = static_cast<int>(sequence.first_block + (row - sequence.first) / kernel.tile_m);
    } else if (!kernel.whole) {
      bool const whole_rows = op.kind == OperatorKind::norm || op.kind == OperatorKind::turn_heads;
      auto const width = op.epilogue == Epilogue::swiglu ? kernel.tile_n / 2 : kernel.tile_n;
      tile.at[0] = whole_rows ? 0 : static_cast<int>(column / width);
      tile.at[1] = static_cast<int>(row / kernel.tile_m);
    }
    return linear_of(pipeline.stages[at()].tile_grid(), tile);
  }

 private:
  std::size_t at() const { return static_cast<std::size_t>(index); }
};

/// Elements of the producer that an element of the consumer reads through an operand: calls `add(row,
/// column)`.
template <class Add>
void elements_read(Case const& c, Dependence const& dependence, std::int64_t row, std::int64_t column,
                   Output const& producer, Add const& add) {
  auto const& a = c.sizes.a;
  if (dependence.consumer == attention) {
    auto const head = column / a.head_dim;
    auto const group = a.query_heads / a.kv_heads;
    auto const columns_of = [&](std::int64_t first_head, std::int64_t of_row) {
      for (std::int64_t d = 0; d < a.head_dim; ++d) add(of_row, first_head * a.head_dim + d);
    };
    auto const sequence = sequence_with(c.sizes, row);
    if (dependence.operand == "a") return columns_of(head, row);
    auto const behind = a.query_heads + (dependence.operand == "c" ? a.kv_heads : 0);
    for (auto key = sequence.first; key < sequence.first + sequence.tokens; ++key)
      if (!a.causal || key <= row) columns_of(behind + head / group, key);
    return;
  }
  if (dependence.operand == "residual") return add(row, column);
  for (std::int64_t other = 0; other < producer.columns(); ++other) add(row, other);  // the whole row
}

TEST(Layer, TilesReadWhatTheirElementsRead) {
  std::mt19937 random(80);
  for (int i = 0; i < 400; ++i) {
    auto const c = some_case(random);
    SCOPED_TRACE(testing::Message() << "case " << i << ": " << c.sizes.a.sequences << " x "
                                    << c.sizes.a.tokens << " tokens, hidden " << c.sizes.hidden << ", inner "
                                    << c.sizes.inner);
    auto const pipeline = tile(c.graph, c.choices);
    ASSERT_TRUE(pipeline) << to_text(pipeline.error());
    ASSERT_EQ(pipeline->stages.size(), std::size_t{stages});
    ASSERT_EQ(pipeline->dependences.size(), 10U);
    for (auto const& dependence : pipeline->dependences) {
      Output const reader{c, *pipeline, dependence.consumer}, producer{c, *pipeline, dependence.producer};
      std::vector<std::set<std::int64_t>> expected(
          static_cast<std::size_t>(pipeline->stages[static_cast<std::size_t>(dependence.consumer)].tiles()));
      for (std::int64_t row = 0; row < reader.rows(); ++row)
        for (std::int64_t column = 0; column < reader.columns(); ++column)
          elements_read(c, dependence, row, column, producer, [&](std::int64_t r, std::int64_t k) {
            expected[static_cast<std::size_t>(reader.tile_with(row, column))].insert(
                producer.tile_with(r, k));
          });
      TileRelation const relation(*pipeline, dependence);
      for (std::size_t t = 0; t < expected.size(); ++t) {
        std::vector<std::int64_t> got;
        relation.producers_of(static_cast<std::int64_t>(t), got);
        ASSERT_EQ(got, std::vector<std::int64_t>(expected[t].begin(), expected[t].end()))
            << dependence.operand << " of "
            << c.graph.operators[static_cast<std::size_t>(dependence.consumer)].name << ", tile " << t;
      }
    }
  }
}

struct Bytes {
  double loaded = 0, unique = 0, stored = 0;
};

Bytes operand(Pipeline const& pipeline, Place place, std::string const& name) {
  auto const& stage = pipeline.stages[place];
  for (auto const& one : stage.operands)
    if (one.name == name)
      return {one.bytes_per_block * static_cast<double>(stage.blocks()), one.unique_bytes, 0};
  ADD_FAILURE() << stage.name << " reads no " << name;
  return {};
}

double stored(Pipeline const& pipeline, Place place) {
  auto const& stage = pipeline.stages[place];
  return stage.store_bytes_per_block * static_cast<double>(stage.tiles());
}

// The stream of residuals is fp32: 4 bytes of an element where others have 2.
TEST(Layer, CostsAreThoseOfTheElements) {
  std::mt19937 random(12);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    auto const c = some_case(random);
    auto const pipeline = tile(c.graph, c.choices);
    ASSERT_TRUE(pipeline) << to_text(pipeline.error());
    auto const& a = c.sizes.a;
    auto const rows = static_cast<double>(c.sizes.rows()), hidden = static_cast<double>(c.sizes.hidden),
               head = static_cast<double>(a.head_dim);
    auto const all = static_cast<double>(a.query_heads + 2 * a.kv_heads) * head;
    auto const touched = c.sizes.shifts ? all : static_cast<double>(a.query_heads + a.kv_heads) * head;
    for (auto const place : {norm, second_norm}) {
      EXPECT_NEAR(operand(*pipeline, place, "a").loaded, rows * hidden * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, place, "a").unique, rows * hidden * 4, 1e-6);
      bool const shifts = c.sizes.shifts && place == second_norm;  // the shifted row is stored as well
      EXPECT_NEAR(stored(*pipeline, place), rows * hidden * (shifts ? 6 : 2), 1e-6);
    }
    auto const tiles_of_turn = static_cast<double>(pipeline->stages[turn].tiles());
    EXPECT_NEAR(operand(*pipeline, turn, "a").loaded, rows * touched * 2, 1e-6);
    EXPECT_NEAR(operand(*pipeline, turn, "a").unique, rows * touched * 2, 1e-6);
    EXPECT_NEAR(operand(*pipeline, turn, "turns").loaded, rows * head * 4, 1e-6);
    EXPECT_NEAR(operand(*pipeline, turn, "turns").unique, static_cast<double>(a.tokens) * head * 4, 1e-6);
    EXPECT_NEAR(stored(*pipeline, turn), rows * touched * 2, 1e-6);
    if (!c.sizes.prompts.empty()) {
      EXPECT_NEAR(operand(*pipeline, turn, "positions").loaded, rows * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, turn, "positions").unique, rows * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, attention, "offsets").unique, static_cast<double>(a.sequences + 1) * 4,
                  1e-6);
    }
    if (c.sizes.shifts) {
      EXPECT_NEAR(operand(*pipeline, turn, "shift").loaded, tiles_of_turn * all * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, turn, "shift").unique, all * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, second_norm, "shift").unique, hidden * 4, 1e-6);
    }
    for (auto const place : {output, down}) {
      EXPECT_NEAR(operand(*pipeline, place, "residual").loaded, rows * hidden * 4, 1e-6);
      EXPECT_NEAR(operand(*pipeline, place, "residual").unique, rows * hidden * 4, 1e-6);
      EXPECT_NEAR(stored(*pipeline, place), rows * hidden * 4, 1e-6);
    }
    EXPECT_NEAR(stored(*pipeline, qkv), rows * all * 2, 1e-6);
    EXPECT_NEAR(stored(*pipeline, gate_up), rows * static_cast<double>(c.sizes.inner) * 2, 1e-6);
    for (auto const place : {norm, turn, second_norm}) EXPECT_EQ(pipeline->stages[place].flops_per_block, 0);
  }
}

/// Tiles of 8 x 8, and of norms whole rows.
std::vector<TileChoice> small_tiles(OperatorGraph const& graph) {
  std::vector<TileChoice> choices;
  for (auto const& op : graph.operators)
    choices.push_back(choice(op, 8, op.kind == OperatorKind::norm ? 32 : 8, 8));
  return choices;
}

TEST(Layer, BuffersHaveTheirTypes) {
  Sizes sizes{{2, 16, 0, 4, 2, 8}, 32, 24, true};
  auto const graph = layer_of(sizes);
  auto const choices = small_tiles(graph);
  auto const pipeline = tile(graph, choices);
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  std::vector<std::string> got;
  for (auto const& b : pipeline->buffers)
    got.push_back(b.name + " " + std::to_string(b.rows) + "x" + std::to_string(b.columns) + " " + b.type);
  EXPECT_THAT(
      got, testing::ElementsAre("x 32x32 fp32", "norm 32x32 bf16", "w 64x32 bf16", "qkv 32x64 bf16",
                                "angles 16x8 fp32", "qkv_biases 1x64 fp32", "turn 32x64 bf16",
                                "attention 32x32 bf16", "w_output 32x32 bf16", "output 32x32 fp32",
                                "output_biases 1x32 fp32", "second_norm 32x32 bf16", "w_gate_up 48x32 bf16",
                                "gate_up 32x24 bf16", "w_down 32x24 bf16", "down 32x32 fp32"));
}

std::string refusal(void (*change)(OperatorGraph&), void (*of_kernels)(std::vector<TileChoice>&) = nullptr) {
  Sizes const sizes{{2, 16, 0, 4, 2, 8}, 32, 24, true};
  auto graph = layer_of(sizes);
  auto choices = small_tiles(graph);
  change(graph);
  if (of_kernels != nullptr) of_kernels(choices);
  auto const made = tile(graph, choices);
  return made ? "accepted" : to_text(made.error());
}

TEST(Layer, RefusesWhatIsNoLayer) {
  EXPECT_EQ(refusal([](OperatorGraph&) {}), "accepted");
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[turn].m = 31; }), HasSubstr("E0152"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[turn].k = 4; }),
              HasSubstr("E0152: turn is a turn_heads, and must have 8 depth (head size), not 4"));
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { g.operators[turn].inputs.resize(1); }),
      HasSubstr("E0153: turn is a turn_heads, and reads \"a\", and \"turns\", \"shift\" or both, once each"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[norm].inputs[0].name = "b"; }),
              HasSubstr("E0153: norm is a norm, and reads \"a\""));
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { g.operators[norm].inputs.push_back(g.operators[norm].inputs[0]); }),
      HasSubstr("E0153"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[norm].epilogue = Epilogue::gelu; }),
              HasSubstr("norm is a norm, and has no epilogue"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[norm].epilogue = Epilogue::residual; }),
              HasSubstr("norm: a residual epilogue needs a GEMM"));
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { g.operators[down].inputs.pop_back(); }),
      HasSubstr("E0153: down: a residual epilogue adds an input named \"residual\", and there are 0"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[down].inputs[2].pattern = ReadPattern::rows; }),
              HasSubstr("E0152"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[down].epilogue = Epilogue::none; }),
              HasSubstr("E015"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[output].epilogue = Epilogue::none; }),
              HasSubstr("E0153: output reads \"residual\", and its epilogue adds none"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.attention.kv_heads = 3; }), HasSubstr("E0152"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.attention.tokens = -1; }), HasSubstr("E0152"));
}

// fp32 where fp32 is read, and nowhere else.
TEST(Layer, RefusesOtherTypes) {
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[gate_up].inputs[0] = from("a", "output"); }),
              HasSubstr("E0152: gate_up reads \"a\" as bf16, and output writes fp32"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[second_norm].inputs[0] = from("a", "norm"); }),
              HasSubstr("E0152: second_norm reads \"a\" as fp32, and norm writes bf16"));
}

TEST(Layer, RefusesKernelsForOtherSizes) {
  auto const with = [](void (*change)(std::vector<TileChoice>&)) {
    return refusal([](OperatorGraph&) {}, change);
  };
  EXPECT_THAT(
      with([](std::vector<TileChoice>& c) { c[norm].kernel.tile_n = 28; }),
      HasSubstr("E0151: kernel k_norm of norm is for rows of 8 to 28 columns, a multiple of 4, not 32"));
  EXPECT_THAT(with([](std::vector<TileChoice>& c) { c[norm].kernel.tile_k = 33; }), HasSubstr("E0151"));
  EXPECT_THAT(with([](std::vector<TileChoice>& c) { c[turn].kernel.tile_n = 16; }),
              HasSubstr("E0151: kernel k_turn of turn is for heads of 16, not 8"));
}

// Each row says its position where sequences are of unequal length: no remainder of the row does.
TEST(Layer, UnequalPromptsSayPositions) {
  Sizes sizes{{2, 16, 0, 4, 4, 8}, 32, 24, false, {16, 5}};
  sizes.a.causal = true;
  auto graph = layer_of(sizes);
  auto const choices = small_tiles(graph);
  auto const pipeline = tile(graph, choices);
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  std::vector<std::string> got;
  for (auto const& b : pipeline->buffers)
    if (b.type == "int32")
      got.push_back(b.name + " " + std::to_string(b.rows) + "x" + std::to_string(b.columns));
  EXPECT_THAT(got, testing::ElementsAre("positions 1x21", "offsets 1x3"));
  graph.operators[turn].inputs.pop_back();
  auto const refused = tile(graph, choices);
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_text(refused.error()), HasSubstr("reads \"a\", and \"turns\" with \"positions\""));
}

TEST(Layer, ShiftsAreAnotherWorkload) {
  Sizes sizes{{1, 16, 0, 4, 4, 8}, 32, 24, false};
  auto const plain = workload_key(layer_of(sizes));
  sizes.shifts = true;
  EXPECT_NE(plain, workload_key(layer_of(sizes)));
}

}  // namespace
}  // namespace tessera
