// SPDX-License-Identifier: Apache-2.0
// How convolutions are cut: every pixel once, slots that fit, warps that there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "convolution/chains.hpp"

#include "support/cases.hpp"

namespace tessera::convolution {
namespace {

/// Elements that the tiles of a stage store: every one once, all splits of a tile the same.
void expect_a_partition(ConvStage const& s) {
  std::vector<int> stored(static_cast<std::size_t>(s.images) * static_cast<std::size_t>(s.height) *
                          static_cast<std::size_t>(s.width) * static_cast<std::size_t>(s.tiles_rows()));
  for (int tile = 0; tile < s.tiles(); ++tile)
    for_each_pixel(s, s.place(tile), [&](int image, int y, int x) {
      ++stored.at(static_cast<std::size_t>(((image * s.height + y) * s.width + x) * s.tiles_rows() +
                                           s.place(tile).row));
    });
  for (int const times : stored) ASSERT_EQ(times, s.cut.splits);
}

/// A tile's columns are its pixels, each once; and a column's line, with a tap's offset, is the line that the
/// copy engine gave to the pixel which the tap reads.
void expect_columns_lie_in_the_patch(ConvStage const& s) {
  for (int const tile : {0, s.tiles() / 2, s.tiles() - 1}) {
    auto const at = s.place(tile);
    std::map<int, int> lines;
    for (int c = 0; c < s.cut.columns(); ++c)
      if (auto const column = column_of(s, at, c); column.pixel >= 0) {
        ASSERT_TRUE(lines.emplace(column.pixel, column.line).second) << "column " << c;
      }
    std::size_t pixels = 0;
    for_each_pixel(s, at, [&](int image, int y, int x) {
      ++pixels;
      auto const found = lines.find((image * s.height + y) * s.width + x);
      ASSERT_NE(found, lines.end());
      // The box begins a padding before the tile's first pixel.
      int const row = (y - at.y * s.cut.box_height) * s.stride,
                column = (x - at.x * s.cut.box_width) * s.stride;
      int const in_patch = image - at.image * s.cut.box_images;
      ASSERT_EQ(found->second, (in_patch * s.patch_height() + row) * s.patch_width() + column);
      int const last_tap = (s.kernel - 1) * (s.patch_width() + 1);
      ASSERT_LT(found->second + last_tap, s.patch_lines());
    });
    ASSERT_EQ(pixels, lines.size());
    ASSERT_LE(k_line * s.patch_lines(), s.patch_bytes());
    if (s.cut.wide == 0) continue;
    // Warpgroups read on behind the last pixel, but not out of the slot.
    int const last = s.first_line(s.cut.column_warps - 1) + 8 * s.cut.column_tiles - 1;
    ASSERT_LE(k_line * (last + (s.kernel - 1) * (s.patch_width() + 1) + 1), s.patch_bytes());
  }
}

TEST(ConvolutionCut, EveryCutOfEverySizeIsAPartitionThatFits) {
  for (auto const& chain : chains()) {
    auto const sizes = sizes_of(chain);
    SCOPED_TRACE(to_string(chain));
    for (std::size_t l = 0; l < chain.layers.size(); ++l)
      for (int const splits : {1, 2, 4}) {
        auto const cuts = cuts_of(sizes[l], chain.layers[l], chain.images, splits);
        ASSERT_EQ(cuts.empty(), sizes[l].channels / k_chunk % splits != 0);
        for (std::size_t i = 0; i < cuts.size(); i += support::k_sanitized ? 56 : 7) {
          auto const& cut = cuts[i];
          SCOPED_TRACE(to_string(cut));
          auto const stage = stage_of(sizes[l], chain.layers[l], chain.images, cut, nullptr);
          ASSERT_EQ(cut.row_warps * cut.column_warps * cut.depth_warps,
                    cut.wide != 0 ? k_warpgroups : k_warps);
          ASSERT_TRUE(cut.wide != 0 || compiled(cut.row_tiles, cut.depth_warps));
          ASSERT_LE(cut.pixels(), cut.columns());
          ASSERT_EQ(stage.slots() * cut.taps_per_slot * splits, stage.taps() * (sizes[l].channels / k_chunk));
          ASSERT_EQ(stage.channels % cut.rows(), 0);
          if (cut.columns() % splits != 0) ADD_FAILURE() << "blocks of a cluster share columns evenly";
          expect_a_partition(stage);
          expect_columns_lie_in_the_patch(stage);
          if (HasFatalFailure()) return;
        }
      }
  }
}

TEST(ConvolutionCut, TheCheapestOfAllIsTaken) {
  Places const places;
  for (auto const& chain : chains()) {
    SCOPED_TRACE(to_string(chain));
    auto const sizes = sizes_of(chain);
    auto const cut = cut_chain(chain, places);
    ASSERT_OK(cut);
    for (int const splits : {1, 2, 4, 8}) {
      ConvOptions options;
      options.splits = splits;
      auto const other = cut_chain(chain, places, options);
      if (other) {
        EXPECT_LE(cut->price, other->price);
      }
    }
    for (std::size_t l = 0; l < chain.layers.size(); ++l)
      for (auto const& one : cuts_of(sizes[l], chain.layers[l], chain.images, cut->splits))
        EXPECT_LE(price_of(cut->stages[l], places.blocks(cut->splits)),
                  price_of(stage_of(sizes[l], chain.layers[l], chain.images, one, nullptr),
                           places.blocks(cut->splits)));
  }
}

/// What a tuner is offered can be made, begins with the planner's choice, and is not one thing many times.
TEST(ConvolutionCut, OptionsOfATuner) {
  for (auto const& chain : {same_size(1, 14, 256, 2), same_size(32, 7, 512, 2), bottleneck(3)}) {
    auto const options = chain_options(chain, {}, 12);
    ASSERT_EQ(options.size(), 12u);
    double before = cut_chain(chain, {})->price;
    for (std::size_t i = 0; i < options.size(); ++i) {
      auto const cut = cut_chain(chain, {}, options[i]);
      ASSERT_OK(cut);
      EXPECT_GE(cut->price, before);
      before = cut->price;
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(options[i].cuts, options[j].cuts);
    }
  }
  EXPECT_TRUE(chain_options(same_size(0, 14, 256, 2), {}, 12).empty());
}

TEST(ConvolutionCut, RingsFillAnSm) {
  for (auto const& chain : chains()) {
    auto const cut = cut_chain(chain, {});
    ASSERT_OK(cut);
    EXPECT_TRUE(check_rings(cut->rings, sizeof(ConvStage), {})) << to_string(chain);
    EXPECT_EQ(cut->workers % cut->splits, 0);
    for (auto const& s : cut->stages) {
      EXPECT_LE(s.slot_bytes(), cut->rings.slot_bytes);
      EXPECT_LE(s.patch_bytes(), cut->rings.late_slot_bytes);
      EXPECT_LE(s.scratch_bytes(), cut->rings.scratch_bytes);
    }
  }
}

/// At batch 1 there are too few pixels for all SMs: the depth is shared. At batch 32 nobody shares it.
TEST(ConvolutionCut, SplitsAreForSmallBatches) {
  EXPECT_GT(cut_chain(same_size(1, 7, 512, 2), {})->splits, 1);
  EXPECT_EQ(cut_chain(same_size(32, 14, 256, 2), {})->splits, 1);
  EXPECT_EQ(cut_chain(same_size(32, 56, 64, 2), {})->splits, 1);
}

/// The convolutions of a residual network, pair by pair: launches part where sizes change, and nowhere a
/// residual would reach over.
TEST(ConvolutionCut, ANetworkPartsWhereItsSizesChange) {
  LayerChain network{1, 56, 56, 64, {}};
  int const pairs[] = {3, 4, 6, 3};
  std::vector<std::size_t> begins;
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < 2 * pairs[stage]; ++i) {
      Layer layer{64 << stage};
      int const number = static_cast<int>(network.layers.size());
      if (i == 0) begins.push_back(network.layers.size());
      if (stage > 0 && i == 0) layer.stride = 2;
      if (i % 2 == 1 && (stage == 0 || i > 1)) layer.residual = number - 1;
      network.layers.push_back(layer);
    }
  auto const parts = cut_launches(network, {});
  ASSERT_TRUE(parts) << to_text(parts.error());
  EXPECT_GT(parts->size(), 1u) << "splits of one size do not suit all layers";
  std::size_t next = 0;
  auto const sizes = sizes_of(network);
  double price = 0;
  for (auto const& part : *parts) {
    EXPECT_EQ(part.first, next);
    EXPECT_NE(std::find(begins.begin(), begins.end(), part.first), begins.end()) << part.first;
    EXPECT_EQ(part.chain.channels, sizes[part.first].channels);
    EXPECT_EQ(part.cut.stages.size(), part.chain.layers.size());
    for (std::size_t l = 0; l < part.chain.layers.size(); ++l) {
      int const residual = network.layers[next + l].residual;
      EXPECT_EQ(part.chain.layers[l].residual, residual < 0 ? -1 : residual - static_cast<int>(part.first));
    }
    next += part.chain.layers.size();
    price += part.cut.price;
  }
  EXPECT_EQ(next, network.layers.size());
  EXPECT_LT(price, cut_chain(network, {})->price);
  // With many images slots that suit all layers of a stage do not fit: it parts inside.
  for (int const images : {8, 16, 32, 64}) {
    network.images = images;
    auto const of_many = cut_launches(network, {});
    ASSERT_TRUE(of_many) << images << " images: " << to_text(of_many.error());
    std::size_t layers = 0;
    for (auto const& part : *of_many) {
      EXPECT_EQ(part.first, layers);
      layers += part.chain.layers.size();
    }
    EXPECT_EQ(layers, network.layers.size());
  }
  network.images = 1;
  // Sizes that do not change are one launch. So is what somebody cuts.
  EXPECT_EQ(cut_launches(same_size(1, 14, 256, 8), {})->size(), 1u);
  ConvOptions options;
  options.splits = 1;
  EXPECT_EQ(cut_launches(network, {}, options)->size(), 1u);
  // No launch begins between an activation and the layer that adds it.
  LayerChain over{1, 14, 14, 64, {Layer{512}, Layer{64}, Layer{512}}};
  over.layers[2].residual = 1;
  auto const of_over = cut_launches(over, {});
  ASSERT_TRUE(of_over);
  for (auto const& part : *of_over) EXPECT_TRUE(part.first == 0 || part.first == 1);
}

/// Four of them, worked out by hand: 14 rows in boxes of 4 are 4 boxes of whole rows.
TEST(ConvolutionCut, GeometryOnPaper) {
  Cut cut;
  cut.box_width = 14, cut.box_height = 4;
  cut.row_tiles = 2, cut.column_tiles = 7, cut.row_warps = 1, cut.column_warps = 1, cut.depth_warps = 8;
  cut.splits = 4, cut.taps_per_slot = 3;
  auto const s = stage_of({14, 14, 256}, Layer{256}, 1, cut, nullptr);
  EXPECT_EQ(cut.rows(), 32);
  EXPECT_EQ(cut.columns(), 56);
  EXPECT_EQ(s.tiles(), 4 * 1 * 4 * 1 * 8);
  EXPECT_EQ(s.chunks, 1);
  EXPECT_EQ(s.slots(), 3);
  EXPECT_EQ(s.slot_bytes(), 3 * 32 * 128);
  EXPECT_EQ(s.patch_lines(), 16 * 6);
  auto const place = s.place(4 * (2 + 4 * 5) + 3);
  EXPECT_EQ(place.split, 3);
  EXPECT_EQ(place.x, 0);
  EXPECT_EQ(place.y, 2);
  EXPECT_EQ(place.image, 0);
  EXPECT_EQ(place.row, 5);
}

}  // namespace
}  // namespace tessera::convolution
