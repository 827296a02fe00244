// SPDX-License-Identifier: Apache-2.0
// Tiles of a period, dealt to workers: each once, in order, evenly by bytes.
#include "tessera/plan/deal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "support/cases.hpp"

namespace tessera {
namespace {

using List = std::vector<DealtTile>;

std::size_t lists_in(DealtTables const& dealt) {
  return dealt.tiles.size() / static_cast<std::size_t>(dealt.pitch);
}
List list_of(DealtTables const& dealt, std::size_t worker) {
  auto const begin = dealt.tiles.begin() + static_cast<std::ptrdiff_t>(worker) * dealt.pitch;
  auto const end =
      std::find_if(begin, begin + dealt.pitch, [](DealtTile const& one) { return one.tile < 0; });
  return {begin, end};
}
/// Without what is behind the ends of lists.
List all_of(DealtTables const& dealt) {
  List all;
  for (std::size_t w = 0; w < lists_in(dealt); ++w)
    for (auto const& one : list_of(dealt, w)) all.push_back(one);
  return all;
}
bool is_before(DealtTile const& a, DealtTile const& b) {
  return std::tie(a.period, a.stage, a.tile) < std::tie(b.period, b.stage, b.tile);
}
long long bytes_of(std::vector<StageToDeal> const& stages, List const& list) {
  long long sum = 0;
  for (auto const& one : list) sum += stages[static_cast<std::size_t>(one.stage)].bytes;
  return sum;
}
long long tiles_of(std::vector<StageToDeal> const& stages) {
  long long sum = 0;
  for (auto const& stage : stages) sum += stage.tiles;
  return sum;
}

/// Each ticket of the covered periods once, in ascending lists.
void expect_complete(std::vector<StageToDeal> const& stages, DealtTables const& dealt) {
  auto all = all_of(dealt);
  for (std::size_t w = 0; w < lists_in(dealt); ++w) {
    auto const list = list_of(dealt, w);
    ASSERT_TRUE(std::is_sorted(list.begin(), list.end(), is_before)) << "worker " << w;
  }
  std::sort(all.begin(), all.end(), is_before);
  std::size_t at = 0;
  for (int period = 0; period < dealt.periods; ++period)
    for (int s = 0; s < static_cast<int>(stages.size()); ++s)
      for (int tile = 0; tile < stages[static_cast<std::size_t>(s)].tiles; ++tile) {
        ASSERT_LT(at, all.size());
        ASSERT_EQ(all[at++], (DealtTile{period, s, tile}));
      }
  ASSERT_EQ(at, all.size());
}

TEST(Deal, RandomStagesAreDealtEvenlyAndInOrder) {
  std::mt19937 random(5);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < support::cases(400); ++trial) {
    std::vector<StageToDeal> stages(static_cast<std::size_t>(1 + below(6)));
    int const workers = 1 + below(trial % 3 == 0 ? 140 : 9);
    int const largest = std::vector{1, 3, 40, 1000}[static_cast<std::size_t>(trial % 4)];
    for (auto& stage : stages) stage = {1 + below(2 * workers + 5), below(largest + 1)};
    long long const ahead = std::vector{0, 1, 500, 1 << 30}[static_cast<std::size_t>(below(4))];
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << workers << " workers, ahead " << ahead);
    auto const dealt = deal(stages, workers, ahead);
    ASSERT_EQ(lists_in(dealt), static_cast<std::size_t>(workers));
    ASSERT_FALSE(dealt.shared);
    expect_complete(stages, dealt);
    if (HasFatalFailure()) return;

    long long most = 0, largest_tile = 0, least = -1;
    for (auto const& stage : stages) largest_tile = std::max(largest_tile, stage.bytes);
    for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w) {
      auto const list = list_of(dealt, w);
      auto const bytes = bytes_of(stages, list);
      most = std::max(most, bytes);
      least = least < 0 ? bytes : std::min(least, bytes);
      // Of each stage an even share, and what can be loaded ahead.
      std::map<std::pair<int, int>, long long> got;
      for (auto const& one : list) ++got[{one.period, one.stage}];
      for (auto const& [of, count] : got) {
        auto const& stage = stages[static_cast<std::size_t>(of.second)];
        auto const share = (stage.tiles + workers - 1) / workers;
        ASSERT_LE(count, share + (stage.bytes > 0 ? ahead / stage.bytes : 0)) << "stage " << of.second;
      }
    }
    ASSERT_LE(most - least, largest_tile);
    ASSERT_LE(static_cast<double>(most), static_cast<double>(bytes_of(stages, all_of(dealt))) / workers +
                                             static_cast<double>(largest_tile));
  }
}

TEST(Deal, TilesThatAreAllAlikeGoRoundInTurns) {
  for (int const workers : {1, 2, 7, 132})
    for (std::vector<long long> const& tiles :
         {std::vector<long long>{5}, {132}, {133}, {12, 12, 12}, {200, 7, 90}, {1, 264, 1}}) {
      std::vector<StageToDeal> stages;
      for (auto const one : tiles) stages.push_back({one, 4096});
      auto const dealt = deal(stages, workers, 1 << 20);
      auto const of_period = tiles_of(stages);
      // Workers have the same number of tiles, however many periods that takes.
      ASSERT_EQ(dealt.periods, workers / std::gcd(of_period, static_cast<long long>(workers)));
      auto ordered = deal_as_queue(stages).tiles;
      for (int w = 0; w < workers; ++w) {
        auto const list = list_of(dealt, static_cast<std::size_t>(w));
        for (std::size_t i = 0; i < list.size(); ++i) {
          auto const ticket = w + static_cast<long long>(i) * workers;
          auto expected = ordered[static_cast<std::size_t>(ticket % of_period)];
          expected.period = static_cast<int>(ticket / of_period);
          ASSERT_EQ(list[i], expected) << workers << " workers, list " << w << ", place " << i;
        }
      }
    }
}

/// However far a worker is behind: its second tile could wait for its first one, or be waited for by it.
TEST(Deal, OfTilesThatMeetEachWorkerHasOne) {
  for (bool const meet : {false, true}) {
    auto const dealt = deal({{3, 100}, {4, 1, meet}}, 4, 1000);
    auto const list = list_of(dealt, 3);
    auto const of_second = std::count_if(
        list.begin(), list.end(), [](DealtTile const& one) { return one.stage == 1 && one.period == 0; });
    EXPECT_EQ(of_second, meet ? 1 : 4);
  }
}
TEST(Deal, ASmallStageBehindALargeOneGoesToWhoeverHadNone) {
  // 3 of 4 workers have a tile of 100 bytes; the fourth one catches up as far as it could load ahead.
  std::vector<StageToDeal> const stages = {{3, 100}, {40, 1}};
  auto const of_second = [&](long long ahead) {
    auto const dealt = deal(stages, 4, ahead);
    auto const list = list_of(dealt, 3);
    return std::count_if(list.begin(), list.end(),
                         [](DealtTile const& one) { return one.stage == 1 && one.period == 0; });
  };
  EXPECT_EQ(of_second(0), 10);
  EXPECT_EQ(of_second(15), 25);
  EXPECT_EQ(of_second(1000), 40);
}

/// What workers get in a launch of so many periods, by which those with the most and the least differ.
long long spread(std::vector<StageToDeal> const& stages, DealtTables const& dealt, long long periods) {
  long long most = 0, least = -1;
  for (int w = 0; w < static_cast<int>(lists_in(dealt)); ++w) {
    DealtWalk walk(dealt.lists(dealt.tiles.data()), w, periods);
    DealtTile tile;
    long long period = 0, bytes = 0;
    for (long long place = 0; walk.find(place, tile, period); ++place)
      bytes += stages[static_cast<std::size_t>(tile.stage)].bytes;
    most = std::max(most, bytes);
    least = least < 0 ? bytes : std::min(least, bytes);
  }
  return most - least;
}

TEST(Deal, WorkersDifferByALargestTileForEachRepetitionOfAListThatIsNotEven) {
  std::vector<StageToDeal> const stages = {{100, 7001}, {90, 5003}};
  auto const dealt = deal(stages, 132, 200'000);
  ASSERT_EQ(dealt.periods, 172);
  for (int const repetitions : {1, 2, 10}) {
    auto const of = spread(stages, dealt, 172LL * repetitions);
    EXPECT_EQ(of, 5003LL * repetitions);
    EXPECT_LE(of, 7001LL * repetitions);
  }
  // One that is even stays so.
  auto const even = deal({{100, 7001}, {32, 7001}}, 132, 0);
  EXPECT_EQ(spread({{100, 7001}, {32, 7001}}, even, 10LL * even.periods), 0);
}

TEST(Deal, RandomListsKeepThatBound) {
  std::mt19937 random(6);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int uneven = 0;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<StageToDeal> stages(static_cast<std::size_t>(1 + below(4)));
    long long largest = 0;
    for (auto& stage : stages) {
      stage = {1 + below(300), 1 + below(10'000)};
      largest = std::max(largest, stage.bytes);
    }
    auto const dealt = deal(stages, 1 + below(140), below(100'000));
    for (int const repetitions : {1, 3})
      ASSERT_LE(spread(stages, dealt, 1LL * dealt.periods * repetitions), largest * repetitions) << trial;
    uneven += spread(stages, dealt, dealt.periods) > 0;
  }
  EXPECT_GT(uneven, 3);
}

TEST(Deal, ListsOfManyTilesCoverOnePeriod) {
  auto const dealt = deal({{70001, 3}, {1, 1000}}, 132, 0);
  EXPECT_EQ(dealt.periods, 1);
  EXPECT_EQ(all_of(dealt).size(), 70002u);
}

TEST(Deal, AQueueHasAllTilesInOrder) {
  std::vector<StageToDeal> const stages = {{3, 0}, {0, 1}, {2, 5}};
  auto const dealt = deal_as_queue(stages);
  EXPECT_TRUE(dealt.shared);
  EXPECT_EQ(dealt.pitch, 5);
  expect_complete(stages, dealt);
}

TEST(DealtWalk, GoesThroughTheListAgainAndAgain) {
  DealtTile const end;
  List const tiles = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 3}, end,       end,
                      end,       end,       {0, 0, 2}, {1, 0, 1}, {1, 0, 2}, end};
  DealtTables const tables{tiles, 4, 2, false};
  auto const walked = [&](int worker, long long periods) {
    DealtWalk walk(tables.lists(tiles.data()), worker, periods);
    std::vector<std::pair<long long, int>> found;
    DealtTile tile;
    long long period = 0;
    for (long long place = 0; walk.find(place, tile, period); ++place) found.push_back({period, tile.tile});
    return found;
  };
  using Found = std::vector<std::pair<long long, int>>;
  EXPECT_EQ(walked(0, 0), Found{});
  EXPECT_EQ(walked(0, 1), (Found{{0, 0}, {0, 1}}));
  EXPECT_EQ(walked(0, 2), (Found{{0, 0}, {0, 1}, {1, 0}, {1, 3}}));
  EXPECT_EQ(walked(0, 3), (Found{{0, 0}, {0, 1}, {1, 0}, {1, 3}, {2, 0}, {2, 1}}));
  EXPECT_EQ(walked(1, 1'000'000'000), Found{});
  EXPECT_EQ(walked(2, 4), (Found{{0, 2}, {1, 1}, {1, 2}, {2, 2}, {3, 1}, {3, 2}}));
  // Places may be left out, as by a worker that draws them.
  DealtTables const shared{{{0, 0, 0}, {0, 1, 0}}, 2, 1, true};
  DealtWalk walk(shared.lists(shared.tiles.data()), 7, 4);
  DealtTile tile;
  long long period = 0;
  ASSERT_TRUE(walk.find(1, tile, period));
  EXPECT_EQ(tile, (DealtTile{0, 1, 0}));
  ASSERT_TRUE(walk.find(6, tile, period));
  EXPECT_EQ(tile, (DealtTile{0, 0, 0}));
  EXPECT_EQ(period, 3);
  EXPECT_FALSE(walk.find(8, tile, period));
  EXPECT_FALSE(walk.find(1'000'000'000'000, tile, period));
}

/// Blocks of a cluster compute neighbouring tiles at a time, where every stage has a tile for each.
TEST(Deal, TilesForEachWorkerGoToTheirOwnNumbers) {
  for (int const workers : {2, 16, 132}) {
    std::vector<StageToDeal> const stages(5, {workers, 1});
    auto const dealt = deal(stages, workers, 0);
    for (std::size_t w = 0; w < lists_in(dealt); ++w) {
      auto const list = list_of(dealt, w);
      ASSERT_EQ(list.size(), stages.size() * static_cast<std::size_t>(dealt.periods));
      for (std::size_t i = 0; i < list.size(); ++i) {
        EXPECT_EQ(list[i].stage, static_cast<int>(i % stages.size()));
        EXPECT_EQ(list[i].tile, static_cast<int>(w));
      }
    }
  }
}

/// The list covers the period then; all other tiles stay where they were.
TEST(Deal, ATileCanBeLeftOut) {
  std::vector<StageToDeal> const stages = {{3, 1}, {5, 1}};
  auto const dealt = deal(stages, 2, 0);
  for (auto const& missed : {DealtTile{0, 0, 0}, {0, 1, 4}, {2, 0, 1}, {5, 1, 3}}) {
    auto const left = without(dealt, missed);
    ASSERT_GT(left.periods, missed.period);
    EXPECT_EQ(left.periods % dealt.periods, 0);
    long long const launch = 3LL * left.periods;
    for (int worker = 0; worker < 2; ++worker) {
      DealtWalk before(dealt.lists(dealt.tiles.data()), worker, launch),
          after(left.lists(left.tiles.data()), worker, launch);
      DealtTile one, same;
      long long period = 0, same_period = 0;
      long long place = 0;
      for (long long i = 0; before.find(i, one, period); ++i) {
        if (period % left.periods == missed.period && one.stage == missed.stage && one.tile == missed.tile)
          continue;
        ASSERT_TRUE(after.find(place++, same, same_period));
        EXPECT_EQ(period, same_period);
        EXPECT_EQ(one.stage, same.stage);
        EXPECT_EQ(one.tile, same.tile);
      }
      EXPECT_FALSE(after.find(place, same, same_period));
    }
  }
}

}  // namespace
}  // namespace tessera
