// SPDX-License-Identifier: Apache-2.0
// Which tiles a tile waits for: exactly those that its halo needs, and the plan says the same as the kernel.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "convolution/chains.hpp"
#include "support/cases.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/run/loop_tables.hpp"

namespace tessera::convolution {
namespace {

using Tiles = std::set<long long>;

TileGrid grid_of(ConvStage const& s) {
  return {4, {s.cut.splits, s.tiles_x(), s.tiles_y() * s.tiles_images(), s.tiles_rows()}};
}

/// The kernel's waits: of every chunk of a tile's channels.
Tiles waited_for(ConvStage const& before, ConvStage const& s, int tile) {
  Tiles result;
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    auto const read = tiles_read(s, s.place(tile), chunk);
    for (int i = 0; i < read.count(); ++i) result.insert(linear_of(grid_of(before), read.at(i)));
  }
  return result;
}

/// By brute force: who stores the elements that a tile multiplies. Of a tile whose depth is shared every
/// block stores a part.
class Writers {
 public:
  explicit Writers(ConvStage const& s) : stage_(s) {
    for (int tile = 0; tile < s.tiles(); ++tile)
      for_each_pixel(s, s.place(tile), [&](int image, int y, int x) {
        of_[{image, y, x, s.place(tile).row}].push_back(tile);
      });
  }
  Tiles read_by(ConvStage const& s, int tile) const {
    Tiles result;
    auto const at = s.place(tile);
    int const channels = k_chunk * s.chunks, rows = stage_.cut.rows();
    for_each_pixel(s, at, [&](int image, int y, int x) {
      for (int r = 0; r < s.kernel; ++r)
        for (int c = 0; c < s.kernel; ++c) {
          int const row = y * s.stride - s.padding + r, column = x * s.stride - s.padding + c;
          if (row < 0 || row >= s.input_height || column < 0 || column >= s.input_width) continue;
          for (int of = at.split * channels / rows; of <= ((at.split + 1) * channels - 1) / rows; ++of)
            for (int const writer : of_.at({image, row, column, of})) result.insert(writer);
        }
    });
    return result;
  }

 private:
  ConvStage const& stage_;
  std::map<std::array<int, 4>, std::vector<int>> of_;
};

/// Where a box is several images, or its window leaves rows out, whole boxes are waited for.
bool is_exact(ConvStage const& s) { return s.stride <= s.kernel; }

/// Each tile of `s` waits for all tiles of `before` that it reads, and where relations are exact for no
/// other.
void check_waits(ConvStage const& before, ConvStage const& s) {
  SCOPED_TRACE(to_string(before.cut) + " to " + to_string(s.cut));
  Writers const writers(before);
  for (int tile = 0; tile < s.tiles(); ++tile) {
    auto const found = waited_for(before, s, tile), needed = writers.read_by(s, tile);
    for (auto const one : needed) ASSERT_TRUE(found.contains(one)) << tile;
    if (is_exact(s)) {
      ASSERT_EQ(found, needed) << tile;
    }
  }
}

TEST(ConvolutionRelation, ATileWaitsForWhatItsHaloNeedsAndNoMore) {
  for (auto const& chain : chains()) {
    if (1LL * chain.images * chain.height * chain.width > 30000) continue;
    SCOPED_TRACE(to_string(chain));
    auto const cut = cut_chain(chain, {});
    ASSERT_OK(cut);
    for (std::size_t l = 1; l < cut->stages.size(); ++l)
      ASSERT_NO_FATAL_FAILURE(check_waits(cut->stages[l - 1], cut->stages[l]));
  }
}

/// Random cuts on both sides, not only the cheapest.
TEST(ConvolutionRelation, OfAnyTwoCuts) {
  unsigned seed = 1;
  for (auto const& chain : {same_size(2, 14, 128, 2), same_size(3, 7, 128, 2), bottleneck(2)}) {
    auto const sizes = sizes_of(chain);
    for (int round = 0; round < support::cases(40); ++round)
      for (int const splits : {1, 2}) {
        auto const pick = [&](std::size_t l) {
          auto const cuts = cuts_of(sizes[l], chain.layers[l], chain.images, splits);
          seed = seed * 1664525 + 1013904223;
          return cuts.empty() ? Cut{} : cuts[seed / 65536 % cuts.size()];
        };
        for (std::size_t l = 1; l < chain.layers.size(); ++l) {
          if (sizes[l].channels / k_chunk % splits != 0 || sizes[l - 1].channels / k_chunk % splits != 0)
            continue;
          auto const before = stage_of(sizes[l - 1], chain.layers[l - 1], chain.images, pick(l - 1), nullptr);
          auto const s = stage_of(sizes[l], chain.layers[l], chain.images, pick(l), &before);
          ASSERT_NO_FATAL_FAILURE(check_waits(before, s));
        }
      }
  }
}

/// The plan is made from expressions, the kernel works out its own waits: they name the same semaphores.
TEST(ConvolutionRelation, ThePlanWaitsForTheSame) {
  for (auto const& chain : chains()) {
    SCOPED_TRACE(to_string(chain));
    auto const cut = cut_chain(chain, {});
    ASSERT_OK(cut);
    auto const plan = plan_chain(*cut, machine("h200").value());
    ASSERT_OK(plan);
    EXPECT_EQ(plan->period, 1);
    auto const tables = describe_loop(*plan);
    ASSERT_OK(tables);
    auto const records = tables->records(tables->tables.numbers.data(), tables->tables.waits.data());
    for (std::size_t l = 1; l < cut->stages.size(); ++l) {
      auto const &before = cut->stages[l - 1], &s = cut->stages[l];
      auto const& stage = records[l].stage;
      auto const& operand = stage.operand[0];
      ASSERT_TRUE(operand.has_set);
      ASSERT_EQ(operand.set.posts, 1u);
      ASSERT_EQ(stage.grid.tiles(), s.tiles());
      for (int tile = 0; tile < s.tiles(); ++tile) {
        std::set<int> kernels, plans;
        for (int chunk = 0; chunk < s.chunks; ++chunk) {
          auto const read = tiles_read(s, s.place(tile), chunk);
          for (int i = 0; i < read.count(); ++i) kernels.insert(operand.set.at(read.at(i)).semaphore);
        }
        for (int i = operand.offsets[tile]; i < operand.offsets[tile + 1]; ++i)
          plans.insert(operand.waits[i].semaphore);
        ASSERT_EQ(kernels, plans) << "layer " << l << ", tile " << tile;
      }
      ASSERT_EQ(grid_of(before).tiles(), before.tiles());
    }
  }
}

}  // namespace
}  // namespace tessera::convolution
