// SPDX-License-Identifier: Apache-2.0
// Layers as a loop, and how they are cut: what holds of every known model, without a GPU.
#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <tessera/measure/machine_json.hpp>
#include <tessera/plan/deal.hpp>
#include <tessera/run/loop_tables.hpp>
#include <tessera/sync/data_token.cuh>

#include "kernels/decode/head.hpp"
#include "kernels/decode/layer_plan.hpp"
#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::decode {
namespace {

using testing::HasSubstr;

constexpr int k_blocks = 132;

MachineProfile const& h200() {
  static MachineProfile const profile = machine("h200").value();
  return profile;
}

Tiles tiles_for(Model const& model, int batch) {
  return tiles_of(model, batch, k_blocks, splits_for(model, batch, k_blocks),
                  with_rings({}, batch).slot_bytes);
}

/// No tile waits before it stores: that buffers may be used again follows from what is read.
TEST(DecodePlan, AnyNumberOfLayersIsOnePeriodWithoutWaitsForReaders) {
  for (auto const& model : known_models())
    for (int const batch : {1, 16}) {
      auto const plan = plan_layers(tiles_for(model, batch), h200(), k_blocks);
      ASSERT_TRUE(plan) << to_text(plan.error());
      EXPECT_EQ(plan->period, 1);
      EXPECT_TRUE(plan->is_persistent());
      EXPECT_TRUE(plan->reuses.empty()) << model.name;
      EXPECT_TRUE(plan->plan.reuse_edges.empty()) << model.name;
      auto const tables = describe_loop(*plan);
      ASSERT_TRUE(tables) << to_text(tables.error());
      ASSERT_EQ(tables->stages.size(), static_cast<std::size_t>(k_stages));
      auto const& lists = tables->tables;
      auto const records = tables->records(lists.numbers.data(), lists.waits.data());
      for (auto const& record : records) EXPECT_EQ(record.stage.before_stores, 0);
      // What wait_first(operand_a) of each is about: an iteration back only of qkv.
      for (int s = 0; s < k_stages; ++s) {
        auto const& record = records[static_cast<std::size_t>(s)];
        EXPECT_TRUE(record.stage.operand[0].has_set) << s;
        EXPECT_EQ(record.back[0], s == k_qkv ? 1u : 0u) << s;
        EXPECT_EQ(record.operation, s == k_attention ? 1 : 0) << s;
      }
    }
}
/// Words say all of it: no tile waits for a semaphore, before it loads or before it stores, or posts to one.
TEST(DecodePlan, WordsNeedNoSemaphore) {
  for (auto const& model : known_models()) {
    auto const plan = plan_layers(tiles_for(model, 1), h200(), k_blocks, Exchange::words);
    ASSERT_TRUE(plan) << to_text(plan.error());
    EXPECT_TRUE(plan->reuses.empty()) << model.name;
    EXPECT_TRUE(plan->plan.semaphores.empty()) << model.name;
    auto const tables = describe_loop(*plan);
    ASSERT_TRUE(tables) << to_text(tables.error());
    auto const& lists = tables->tables;
    for (auto const& record : tables->records(lists.numbers.data(), lists.waits.data())) {
      EXPECT_EQ(record.stage.before_stores, 0);
      EXPECT_EQ(record.stage.posts, 0u);
      EXPECT_FALSE(record.stage.operand[0].has_set);
    }
  }
}
/// One and two sequences, where activations fit beside the rings and no block has two tiles of attention.
TEST(DecodePlan, WordsWhereTheyFit) {
  auto const cut_of = [](Model const& model, int batch, int splits) {
    return with_exchange(model, batch, {}, k_blocks, splits);
  };
  for (auto const& model : known_models())
    for (int const batch : {1, 2})
      EXPECT_EQ(cut_of(model, batch, splits_for(model, batch, k_blocks)).exchange, Exchange::words)
          << model.name;
  auto model = *model_of("llama-3.2-1b");
  EXPECT_EQ(cut_of(model, 1, 16).slot_bytes, 48 * 1024);
  EXPECT_EQ(cut_of(model, 3, 5).exchange, Exchange::semaphore);
  EXPECT_EQ(cut_of(model, 1, 17).exchange, Exchange::semaphore)
      << "136 tiles that wait for one another, by 132 blocks";
  EXPECT_LT(cut_of(*model_of("qwen2.5-7b"), 2, 16).slot_bytes, 48 * 1024) << "75 KB of activations";
  model.kv_heads = 32, model.heads = 64;
  EXPECT_EQ(cut_of(model, 1, 1).exchange, Exchange::words);
  model.intermediate = 64 * 1024;
  auto const large = cut_of(model, 2, 1);
  EXPECT_EQ(large.exchange, Exchange::semaphore) << "256 KB of activations";
  EXPECT_EQ(large.slot_bytes, 48 * 1024);
}
/// One GPU's shares of models that none has room for.
TEST(DecodePlan, SharesAreCutAsModelsAre) {
  for (auto const& whole : large_models()) {
    auto const model = *share_of(whole, 8);
    for (int const batch : {1, 2, 16, 64}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(batch));
      int const splits = splits_for(model, batch, k_blocks);
      auto const cut = with_exchange(model, batch, {}, k_blocks, splits);
      EXPECT_EQ(cut.exchange, batch <= 2 ? Exchange::words : Exchange::semaphore);
      auto const tiles = tiles_of(model, batch, k_blocks, splits, cut.slot_bytes);
      auto const plan = plan_layers(tiles, h200(), k_blocks, *cut.exchange);
      ASSERT_TRUE(plan) << to_text(plan.error());
      EXPECT_TRUE(plan->reuses.empty());
    }
    // A group of eight divides a layer and its cache, and nothing else.
    double const head = 2.0 * whole.vocabulary * whole.hidden, all = whole.weight_bytes() - head;
    EXPECT_DOUBLE_EQ(8 * (model.weight_bytes() - head), all);
  }
}
/// What a block multiplies of activations is whole slots of weights: their room is, too.
TEST(DecodePlan, RoomForActivationsIsThatOfWholeSlots) {
  auto const model = *model_of("llama-3.2-1b");
  auto const tiles = tiles_for(model, 1);
  auto products = layer_products(model, 1, tiles);
  unsigned const words = 0;
  for (auto& p : products) p.input_words[0] = &words;
  Cut cut;
  cut.slot_bytes = 48 * 1024, cut.exchange = Exchange::words;
  auto const made = few_tokens::cut_products(products, k_blocks, 8, layer_options(model, cut));
  ASSERT_TRUE(made) << to_text(made.error());
  EXPECT_EQ(made->products[k_gate_up].input_bytes(),
            33 * 128);  // 11 slots of 3 k-blocks, of which 32 are there
  EXPECT_EQ(made->products[k_down].input_bytes(), 132 * 128);  // 6 slots of 22, of which 128 are there
  EXPECT_EQ(made->products[k_qkv].input_bytes(), 32 * 128);
  // Behind the sums of 8 warps for 16 rows.
  EXPECT_EQ(made->rings.scratch_bytes, 640 + 132 * 128);
  EXPECT_EQ(made->rings.late_slots * made->rings.late_slot_bytes, 4 * 1024);
}
TEST(DecodePlan, TheHeadReadsNoStage) {
  auto const plan = plan_head(tiles_for(known_models().front(), 1), h200(), k_blocks);
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto const tables = describe_loop(*plan);
  ASSERT_TRUE(tables) << to_text(tables.error());
  auto const& lists = tables->tables;
  EXPECT_FALSE(tables->records(lists.numbers.data(), lists.waits.data()).front().stage.operand[0].has_set);
  EXPECT_EQ(tables->tickets, tiles_for(known_models().front(), 1).head);
}

TEST(DecodePlan, ProductsFitAnSm) {
  for (auto const& model : known_models())
    for (int const batch : {1, 8, 16, 20, 64}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(batch));
      int const columns = few_tokens::columns_for(batch);
      auto const tiles = tiles_for(model, batch);
      auto const cut = few_tokens::cut_products(layer_products(model, batch, tiles), k_blocks, columns,
                                                layer_options(model, with_rings({}, batch)));
      ASSERT_TRUE(cut) << to_text(cut.error());
      EXPECT_LE(shared_bytes_of(cut->rings), 227 * 1024);
      EXPECT_GE(cut->rings.late_slot_bytes, 2 * (model.group() + 2) * model.head_size);
      EXPECT_GE(cut->rings.scratch_bytes, attention_scratch_bytes(model.group(), model.head_size, false));
      EXPECT_GE(positions_of_slot(cut->rings.slot_bytes, model.head_size), k_position_block);
      for (std::size_t s = 0; s < k_stages; ++s)
        if (s != k_attention) {
          EXPECT_EQ(cut->products[s].tiles, tiles.of[s]);
          EXPECT_LE(cut->products[s].box_rows, few_tokens::k_most_rows);
        }
      auto const head = few_tokens::cut_products({head_product(model, batch, tiles)}, k_blocks, columns,
                                                 head_options(with_rings({}, batch)));
      ASSERT_TRUE(head) << to_text(head.error());
      EXPECT_EQ(tiles.head, k_blocks);
      EXPECT_EQ(head->products[0].tiles, tiles.head * tiles.head_parts);
    }
}
/// Whatever slots are asked for: sequences may be as many as there can be, and attention has room.
TEST(DecodePlan, SlotsHoldABlockOfPositionsHoweverFewRowsProductsHave) {
  Model model;
  model.layers = 2;
  model.hidden = 256, model.intermediate = 512;
  model.heads = 4, model.kv_heads = 2, model.vocabulary = 512;
  for (int const head_size : {64, 128})
    for (int const batch : {1, 2, 8, 9, 33, 64})
      for (int const kilobytes : {0, 1, 8, 16}) {
        model.head_size = head_size;
        Cut cut;
        cut.slot_bytes = 1024 * kilobytes;
        cut = with_rings(cut, batch);
        auto const made =
            few_tokens::cut_products(layer_products(model, batch, tiles_for(model, batch)), k_blocks,
                                     few_tokens::columns_for(batch), layer_options(model, cut));
        ASSERT_TRUE(made) << to_text(made.error());
        EXPECT_GE(positions_of_slot(made->rings.slot_bytes, head_size), k_position_block) << batch;
      }
}
/// A thread issues a load every 300 to 570 cycles: small ones keep it from streaming.
TEST(DecodePlan, LoadsOfOneSequenceAreLarge) {
  for (auto const& model : known_models()) {
    auto const tiles = tiles_for(model, 1);
    auto const cut = few_tokens::cut_products(layer_products(model, 1, tiles), k_blocks, 8,
                                              layer_options(model, with_rings({}, 1)));
    ASSERT_TRUE(cut) << to_text(cut.error());
    for (std::size_t s = 0; s < k_stages; ++s)
      if (auto const& p = cut->products[s]; s != k_attention) {
        EXPECT_GE(p.slot_bytes(), 4096) << model.name << ", stage " << s;
      }
  }
}
/// One sequence of the 1B model: slots of 48 KB are full, or hold all of a tile in few turns.
TEST(DecodePlan, SlotsOfOneSequenceAreDeep) {
  auto const model = model_of("llama-3.2-1b");
  ASSERT_TRUE(model);
  auto const tiles = tiles_for(*model, 1);
  auto const cut = few_tokens::cut_products(layer_products(*model, 1, tiles), k_blocks, 8,
                                            layer_options(*model, with_rings({}, 1)));
  ASSERT_TRUE(cut) << to_text(cut.error());
  EXPECT_EQ(cut->rings.slot_bytes, 48 * 1024);
  EXPECT_EQ(cut->rings.slots, 4);
  auto const& p = cut->products;
  // Rows, k-blocks to a slot, slots to a tile.
  auto const is = [](few_tokens::Product const& of, int rows, int depth, int slots) {
    EXPECT_EQ(of.box_rows, rows);
    EXPECT_EQ(of.stage_depth, depth);
    EXPECT_EQ(of.slots(), slots);
  };
  is(p[k_qkv], 24, 16, 2);
  is(p[k_out], 16, 16, 2);
  is(p[k_gate_up], 126, 3, 11);
  is(p[k_down], 16, 22, 6);
  auto const head = few_tokens::cut_products({head_product(*model, 1, tiles)}, k_blocks, 8,
                                             head_options(with_rings({}, 1)));
  ASSERT_TRUE(head) << to_text(head.error());
  EXPECT_EQ(tiles.head_parts, 8);
  is(head->products[0], 122, 3, 11);
  // Where two k-blocks of 122 rows do not fit, parts are smaller.
  EXPECT_EQ(tiles_of(*model, 1, k_blocks, 16, 28 * 1024).head_parts, 9);
}
/// No block has two tiles of a product while another one has none.
TEST(DecodePlan, EveryBlockHasOneTileOfEachProduct) {
  auto const model = model_of("llama-3.2-1b");
  ASSERT_TRUE(model);
  auto const tiles = tiles_for(*model, 1);
  auto const bytes = tile_bytes(*model, 1, tiles, 1024);
  std::vector<StageToDeal> stages;
  for (std::size_t s = 0; s < k_stages; ++s) stages.push_back({tiles.of[s], bytes[s]});
  auto const dealt = deal(stages, k_blocks, 6LL * 32 * 1024);
  ASSERT_GE(dealt.periods, 1);
  for (int block = 0; block < k_blocks; ++block) {
    std::vector<int> of(k_stages);
    for (int i = 0; i < dealt.pitch; ++i) {
      auto const& tile = dealt.tiles[static_cast<std::size_t>(block * dealt.pitch + i)];
      if (tile.tile >= 0) ++of[static_cast<std::size_t>(tile.stage)];
    }
    for (int s = 0; s < k_stages; ++s)
      if (s != k_attention) {
        EXPECT_EQ(of[static_cast<std::size_t>(s)], dealt.periods) << block << " of stage " << s;
      }
  }
}
/// Gate and up of a model whose rows are too many for one tile to a block.
TEST(DecodePlan, WideProductsHaveSeveralTilesToABlock) {
  auto const model = model_of("llama-3-8b");
  ASSERT_TRUE(model);
  auto const tiles = tiles_for(*model, 1);
  EXPECT_EQ(tiles.of[k_gate_up], 2 * k_blocks);
  EXPECT_EQ(tiles.of[k_down], k_blocks);
  EXPECT_EQ(tiles.of[k_attention], 8 * 16);
}

TEST(DecodePlan, BytesOfTilesAddUpToTheModel) {
  for (auto const& model : known_models()) {
    int const cached = 1024;
    auto const tiles = tiles_for(model, 1);
    auto const bytes = tile_bytes(model, 1, tiles, cached);
    double layer = 0;
    for (std::size_t s = 0; s < k_stages; ++s)
      layer += static_cast<double>(bytes[s]) * static_cast<double>(tiles.of[s]);
    double const all =
        model.weight_bytes() - 2.0 * model.vocabulary * model.hidden + cached * model.cache_bytes();
    EXPECT_NEAR(layer * model.layers, all, 1e-3 * all) << model.name;
  }
}
/// The floor that is compared with: 2475.7 MB of Llama-3.2-1B with 128 cached tokens.
TEST(DecodePlan, BytesOfAToken) {
  auto const model = model_of("llama-3.2-1b");
  ASSERT_TRUE(model);
  EXPECT_NEAR((model->weight_bytes() + 128 * model->cache_bytes()) / 1e6, 2475.7, 0.3);
}

TEST(DecodeCache, PartsOfPositionsAreBlocksAndCoverAll) {
  for (int cached = 0; cached <= 300; ++cached)
    for (int const splits : {1, 2, 3, 7, 16, 32}) {
      int end = 0;
      for (int i = 0; i < splits; ++i) {
        auto const part = positions_of(cached, splits, i);
        ASSERT_EQ(part.begin, end) << cached << " in " << splits;
        ASSERT_TRUE(part.begin % k_position_block == 0 || part.begin == part.end);
        end = part.end;
      }
      ASSERT_EQ(end, cached);
    }
}
TEST(DecodeCache, PartsOfAWindowAreBlocksAndCoverIt) {
  for (int cached = 0; cached <= 200; ++cached)
    for (int const window : {0, 1, 2, 15, 16, 17, 100, 150, 300})
      for (int const splits : {1, 2, 7, 32}) {
        int const first = first_seen(cached, window);
        // The new token and those before it.
        ASSERT_EQ(cached - first + 1, window == 0 ? cached + 1 : std::min(window, cached + 1));
        int end = std::min(first / 16 * 16, cached);
        for (int i = 0; i < splits; ++i) {
          auto const part = positions_from(first, cached, splits, i);
          ASSERT_EQ(part.begin, end) << cached << " in " << splits << ", window " << window;
          ASSERT_TRUE(part.begin % k_position_block == 0 || part.begin == part.end);
          end = part.end;
        }
        ASSERT_EQ(end, cached);
      }
  auto model = known_models().front();
  EXPECT_EQ(model.read_of(5000), 5000);
  model.window = 1000;
  EXPECT_EQ(model.read_of(5000), 999);
  EXPECT_EQ(model.read_of(1000), 999);
  EXPECT_EQ(model.read_of(999), 999);
  model.window_from = model.layers / 4;
  EXPECT_EQ(model.read_of(5000), (5000 + 3 * 999) / 4) << "on average";
  EXPECT_EQ(model.read_of(999), 999);
}
TEST(DecodeCache, ARowsPlacesAreAllDifferentAndKeepSixteenBytes) {
  for (int const size : {64, 96, 128})
    for (int position = 0; position < 16; ++position) {
      std::set<int> places;
      for (int d = 0; d < size; ++d) {
        int const place = place_in_row(position, d, size);
        EXPECT_TRUE(place >= 0 && place < size);
        EXPECT_EQ(place % 8, d % 8);
        places.insert(place);
      }
      EXPECT_EQ(places.size(), static_cast<std::size_t>(size));
    }
}
/// Eight rows' sixteen bytes of one number lie in all banks.
TEST(DecodeCache, EightPositionsAreReadFromAllBanks) {
  for (int const size : {64, 96, 128})
    for (int chunk = 0; chunk < size / 8; ++chunk) {
      std::set<int> banks;
      for (int p = 0; p < 8; ++p) banks.insert((p * size + place_in_row(p, 8 * chunk, size)) * 2 % 128 / 16);
      EXPECT_EQ(banks.size(), 8u);
    }
}
TEST(DecodeCache, TilesAndSplits) {
  for (int tile = 0, s = 0; s < 3; ++s)
    for (int h = 0; h < 8; ++h)
      for (int i = 0; i < 5; ++i, ++tile) {
        auto const found = attention_tile(tile, 8, 5);
        EXPECT_TRUE(found.sequence == s && found.head == h && found.split == i) << tile;
      }
  auto const model = known_models().front();
  EXPECT_EQ(splits_for(model, 1, k_blocks), 16);
  EXPECT_EQ(splits_for(model, 16, k_blocks), 1);
  EXPECT_EQ(splits_for(model, 64, k_blocks), 1);
}

unsigned bits_of(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
TEST(DecodeHead, KeysOrderLogitsAndThenLowerTokens) {
  std::vector<float> const rising = {-INFINITY, -3e38f, -1.5f, -1e-40f, 0.0f, 1e-40f, 2.0f, 3e38f, INFINITY};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    EXPECT_GT(key_of(bits_of(rising[i]), 2000000), 0u);
    EXPECT_EQ(token_of(key_of(bits_of(rising[i]), 7)), 7);
    EXPECT_GT(key_of(bits_of(rising[i]), 3), key_of(bits_of(rising[i]), 4));
    if (i == 0) continue;
    EXPECT_GT(key_of(bits_of(rising[i]), 9), key_of(bits_of(rising[i - 1]), 0));
  }
  EXPECT_GT(key_of(bits_of(-0.0f), 3), key_of(bits_of(0.0f), 4));
  EXPECT_EQ(key_of(bits_of(-0.0f), 4), key_of(bits_of(0.0f), 4));
}

TEST(DecodeStall, NamesTheLayer) {
  auto const plan = plan_layers(tiles_for(known_models().front(), 1), h200(), k_blocks);
  ASSERT_TRUE(plan) << to_text(plan.error());
  Diagnostics const stalled = {{"E0520", Severity::error, {}, "out_0 tile (3) waits", {"a note"}, ""}};
  auto const text = [&](int stage, int producer, unsigned expected) {
    StallRecord record;
    record.state = 2;
    record.stage = stage;
    record.expected = expected;
    for (auto const& set : plan->plan.semaphores)
      if (set.producer == producer) record.semaphore = set.first + 2;
    return to_text(with_layer(stalled, *plan, record, 16));
  };
  // Sixteen layers to a launch: the third launch's fourth layer.
  EXPECT_THAT(text(k_out, k_attention, 36), HasSubstr("out_0 tile (3) waits; layer 3 of 16\n   a note"));
  EXPECT_THAT(text(k_down, k_gate_up, 16), HasSubstr("; layer 15 of 16"));
  // Posts of the layer before.
  EXPECT_THAT(text(k_qkv, k_down, 36), HasSubstr("; layer 4 of 16"));
  EXPECT_THAT(text(k_out, k_down, 36), HasSubstr("; layer 4 of 16")) << "residuals";
  EXPECT_THAT(text(k_down, k_out, 36), HasSubstr("; layer 3 of 16")) << "residuals";
  EXPECT_EQ(text(k_attention, k_gate_up, 36), to_text(stalled)) << "which it does not wait for";
  EXPECT_EQ(to_text(with_layer(stalled, *plan, StallRecord{}, 16)), to_text(stalled));
  EXPECT_TRUE(with_layer({}, *plan, StallRecord{}, 16).empty());
  // Words carry the layer, and say what they may be.
  auto const words = plan_layers(tiles_for(known_models().front(), 1), h200(), k_blocks, Exchange::words);
  ASSERT_TRUE(words) << to_text(words.error());
  StallRecord record;
  record.state = 2;
  record.stage = k_qkv;
  record.semaphore = data_token_of(11);
  EXPECT_THAT(to_text(with_layer(stalled, *words, record, 16)),
              HasSubstr("out_0 tile (3) waits; it reads x of down; layer 11 of 16"));
}

}  // namespace
}  // namespace tessera::decode
