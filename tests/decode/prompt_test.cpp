// SPDX-License-Identifier: Apache-2.0
// Which tokens of prompts a step reads, and what attention over them sees: against counting, without a GPU.
#include "kernels/decode/prompt.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tessera/measure/machine_json.hpp>
#include <tessera/run/loop_tables.hpp>

#include "kernels/decode/layer_plan.hpp"
#include "support/cases.hpp"

namespace tessera::decode {
namespace {

using Place = std::pair<int, int>;  // a sequence and a position

/// What must hold of all steps together: every position is read once, sees each position up to its own once,
/// whatever it sees of the cache was stored by an earlier step or before, and it is stored once. With a
/// window it sees no other positions, and an item loads no block that none of its tokens sees.
void check(std::vector<Positions> const& unread, int rows, int group, int blocks, int kv_heads, int least,
           int window = 0) {
  Model model;
  model.kv_heads = kv_heads, model.heads = kv_heads * group;
  int const items = prompt_items(model, rows, static_cast<int>(unread.size()), blocks);
  ASSERT_LE(items, k_most_prompt_items);
  std::set<Place> cached;
  std::size_t all = 0;
  for (std::size_t s = 0; s < unread.size(); ++s) {
    all += static_cast<std::size_t>(std::max(unread[s].end - unread[s].begin, 0));
    for (int p = 0; p < unread[s].begin; ++p) cached.insert({static_cast<int>(s), p});
  }
  std::size_t count = 0;
  for (auto const& step : prompt_steps(unread, rows)) {
    auto const table = prompt_table(step, group, items, least, window);
    std::map<Place, std::multiset<int>> seen;
    std::set<Place> stored;
    for (int i = 0; i < k_most_prompt_items; ++i) {
      auto const& item = table.items[i];
      if (item.begin == item.end) continue;
      ASSERT_LT(i, items);
      ASSERT_LE((item.end - item.begin) * group, k_prompt_queries);
      ASSERT_LE(item.parts, k_most_splits);
      ASSERT_LE(item.past.end, item.cached);
      ASSERT_EQ(item.past.begin % k_position_block == 0 || item.past.begin == item.past.end, true);
      int const needed = window > 0 ? item.cached + item.begin - window + 1 : 0;
      if (item.past.begin < item.past.end) {
        ASSERT_GT(item.past.begin + k_position_block, needed);
      }
      for (int t = item.begin; t < item.end; ++t) {
        int const row = item.row + t;
        ASSERT_LT(row, rows);
        ASSERT_EQ(table.rows[row].sequence, item.sequence);
        ASSERT_EQ(table.rows[row].position, item.cached + t);
        Place const place{item.sequence, item.cached + t};
        for (int p = item.past.begin; p < item.past.end; ++p) {
          ASSERT_EQ(cached.count({item.sequence, p}), 1u) << "loaded before it was stored";
          seen[place].insert(p);
        }
        if (!item.newest(i)) continue;
        for (int of_run = 0; of_run <= t; ++of_run) seen[place].insert(item.cached + of_run);
        ASSERT_TRUE(stored.insert(place).second) << "stored twice";
      }
    }
    for (int r = 0; r < k_most_prompt_rows; ++r) {
      auto const [sequence, position] = table.rows[r];
      if (sequence < 0) continue;
      ASSERT_LT(r, rows);
      ++count;
      auto& positions = seen[{sequence, position}];
      int expected = window > 0 ? std::max(position - window + 1, 0) : 0;
      // The kernel leaves out what is loaded for other tokens of the item, or of a block.
      positions.erase(positions.begin(), positions.lower_bound(expected));
      ASSERT_EQ(positions.size(), static_cast<std::size_t>(position + 1 - expected))
          << sequence << ", " << position;
      for (int const p : positions) ASSERT_EQ(p, expected++);
      ASSERT_EQ(stored.count({sequence, position}), 1u);
    }
    for (auto const& place : stored) ASSERT_TRUE(cached.insert(place).second) << "read in an earlier step";
  }
  ASSERT_EQ(count, all);
}

TEST(DecodePrompts, EachTokenSeesWhatIsBeforeItOnce) {
  for (int const length : {0, 1, 2, 63, 64, 65, 130})
    for (int const begin : {0, 1, 15, 16, 700})
      for (int const group : {1, 3, 4, 8}) check({{begin, begin + length}}, 64, group, 132, 8, 64);
}
TEST(DecodePrompts, WindowsLeaveOutWhatNobodySees) {
  for (int const window : {1, 2, 15, 16, 17, 64, 65, 700, 5000})
    for (int const begin : {0, 15, 16, 700, 3000})
      for (int const group : {1, 4, 8}) check({{begin, begin + 130}}, 64, group, 132, 8, 64, window);
  // A part of 16 items to 128 positions, of those that are seen.
  auto const parts = [](int window) {
    return prompt_table(prompt_steps({{4096, 4096 + 32}}, 64).front(), 4, 16, 64, window).items[0].parts;
  };
  EXPECT_EQ(parts(0), 16);
  EXPECT_EQ(parts(5000), 16);
  EXPECT_EQ(parts(257), 4);
  EXPECT_EQ(parts(33), 1);
}
TEST(DecodePrompts, UnequalSequences) {
  check({{0, 5}, {100, 100}, {3, 200}, {1000, 1001}, {17, 40}}, 64, 4, 132, 8, 16);
  std::vector<Positions> many;
  for (int i = 0; i < 64; ++i) many.push_back({i * 7, i * 7 + i % 9});
  for (int const rows : {2, 3, 16, 63, 64}) check(many, rows, 4, 132, 8, 32);
}
TEST(DecodePrompts, AtRandom) {
  std::mt19937 random(3);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < support::cases(100) && !testing::Test::HasFailure(); ++i) {
    std::vector<Positions> unread;
    for (int s = below(12); s >= 0; --s) {
      int const begin = below(2) == 0 ? 0 : below(500);
      unread.push_back({begin, begin + below(150)});
    }
    int const window = below(2) == 0 ? 0 : 1 + below(200);
    check(unread, 2 + below(63), 1 + below(8), 1 + below(200), 1 + below(16), 16 * (1 + below(8)), window);
  }
}

/// Rows are full but for the last step's: a long prompt takes a 64th of the steps.
TEST(DecodePrompts, StepsAreFull) {
  EXPECT_EQ(prompt_steps({{0, 640}}, 64).size(), 10u);
  EXPECT_EQ(prompt_steps({{0, 641}}, 64).size(), 11u);
  auto const two = prompt_steps({{0, 100}, {7, 35}}, 64);
  ASSERT_EQ(two.size(), 2u);
  ASSERT_EQ(two[1].size(), 2u);
  EXPECT_EQ(two[1][0].tokens, 36);
  EXPECT_EQ(two[1][1].row, 36);
  EXPECT_EQ(two[1][1].position, 7);
  EXPECT_EQ(two[1][1].tokens, 28);
  EXPECT_TRUE(prompt_steps({{4, 4}, {9, 9}}, 64).empty());
}
/// What no step exceeds is reached by some step.
TEST(DecodePrompts, PiecesOfTheWorstStep) {
  for (int const group : {1, 2, 4, 5, 8})
    for (int const rows : {2, 16, 33, 64})
      for (int const batch : {1, 2, 9, 64}) {
        int const tokens = prompt_tokens_of_item(group);
        // By trying: how many runs, all but one of one token.
        int most = 0;
        for (int runs = 1; runs <= std::min(rows, batch); ++runs)
          most = std::max(most, runs - 1 + (rows - runs + 1 + tokens - 1) / tokens);
        EXPECT_EQ(most_prompt_pieces(group, rows, batch), most) << group << ' ' << rows << ' ' << batch;
      }
}
/// A long cache is cut into as many parts as there are items; a short one is not.
TEST(DecodePrompts, LongPastsAreCut) {
  auto const parts = [](int cached, int tokens) {
    return prompt_table(prompt_steps({{cached, cached + tokens}}, 64).front(), 4, 16, 64).items[0].parts;
  };
  EXPECT_EQ(parts(0, 64), 1);
  EXPECT_EQ(parts(127, 64), 1);
  EXPECT_EQ(parts(128, 64), 2);
  EXPECT_EQ(parts(4096, 64), 8) << "two pieces share 16 items";
  EXPECT_EQ(parts(4096, 32), 16);
}

MachineProfile const& h200() {
  static MachineProfile const profile = machine("h200").value();
  return profile;
}
/// The plan of steps that read prompts: as those that generate, it waits for no reader, and attention waits
/// for the product whose keys and values it takes.
TEST(DecodePrompts, LayersAreOnePeriodWithoutWaitsForReaders) {
  for (auto const& model : known_models())
    for (int const batch : {1, 64}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(batch));
      constexpr int rows = 64, blocks = 132;
      int const items = prompt_items(model, rows, batch, blocks);
      auto const tiles = prompt_tiles(model, rows, items, blocks);
      auto const plan = plan_layers(tiles, h200(), blocks);
      ASSERT_TRUE(plan) << to_text(plan.error());
      EXPECT_EQ(plan->period, 1);
      EXPECT_TRUE(plan->is_persistent());
      EXPECT_TRUE(plan->reuses.empty());
      auto const tables = describe_loop(*plan);
      ASSERT_TRUE(tables) << to_text(tables.error());
      auto const& lists = tables->tables;
      for (auto const& record : tables->records(lists.numbers.data(), lists.waits.data()))
        EXPECT_EQ(record.stage.before_stores, 0);
      auto const cut =
          few_tokens::cut_products(layer_products(model, rows, tiles), blocks, k_most_prompt_rows,
                                   prompt_options(model, with_rings({}, rows)));
      ASSERT_TRUE(cut) << to_text(cut.error());
      EXPECT_LE(shared_bytes_of(cut->rings), 227 * 1024);
      EXPECT_GE(cut->rings.scratch_bytes, prompt_scratch_bytes(model.head_size));
      EXPECT_GE(positions_of_slot(cut->rings.slot_bytes, model.head_size), k_position_block);
      EXPECT_GE(cut->rings.late_slots, 1);
    }
}

/// However few rows a step has, by the kernel for 64: slots hold what attention needs, and fit an SM.
TEST(DecodePrompts, ProductsOfFewRowsFitAnSm) {
  Model small;
  small.layers = 2, small.hidden = 256, small.intermediate = 512;
  small.heads = 4, small.kv_heads = 2, small.vocabulary = 512;
  auto models = known_models();
  for (int const head_size : {64, 128}) {
    small.head_size = head_size;
    models.push_back(small);
  }
  for (auto const& model : models)
    for (int const rows : {2, 3, 15, 33, 64})
      for (int const blocks : {3, 40, 132}) {
        if (blocks == 3 && model.hidden > 1024) continue;  // more rows to a block than a product has
        auto const tiles = prompt_tiles(model, rows, prompt_items(model, rows, 1, blocks), blocks);
        auto const cut =
            few_tokens::cut_products(layer_products(model, rows, tiles), blocks, k_most_prompt_rows,
                                     prompt_options(model, with_rings({}, rows)));
        ASSERT_TRUE(cut) << to_text(cut.error());
        EXPECT_LE(shared_bytes_of(cut->rings), 227 * 1024);
        EXPECT_GE(cut->rings.scratch_bytes, prompt_scratch_bytes(model.head_size));
        EXPECT_GE(positions_of_slot(cut->rings.slot_bytes, model.head_size), k_position_block);
      }
}

}  // namespace
}  // namespace tessera::decode
