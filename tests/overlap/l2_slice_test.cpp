// SPDX-License-Identifier: Apache-2.0
// A slice of L2: what it keeps, what it writes back, and what makes it stand still.
#include <gmock/gmock.h>

#include <bit>

#include "overlap/l2_slice.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera::overlap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto load = L2Request::Kind::load;
constexpr auto store = L2Request::Kind::store;
constexpr auto through = L2Request::Kind::through;
constexpr std::uint8_t all = 15;

OverlapHardware unlimited() {
  auto hardware = *machine("t3").value().overlap;
  hardware.l2_misses = hardware.l2_merges = hardware.l2_to_dram_entries = 0;
  return hardware;
}

/// A slice, and what it said in the last call.
class Slice {
 public:
  Slice(OverlapHardware const& hardware, int sets, int ways) : slice_(hardware, sets, ways, 1) {}

  void ask(L2Request::Kind kind, std::uint64_t line, std::uint8_t sectors = all, std::int32_t bundle = 0) {
    slice_.push({0, line, bundle, sectors, kind, AccessKind::update});
  }
  void run(double until = 1e6) {
    events_.clear();
    slice_.run(until, events_);
  }
  void fill(double ns, std::uint64_t line, std::uint8_t sectors = all) {
    events_.clear();
    slice_.fill(ns, line, sectors, events_);
  }
  /// Bundles that were answered.
  std::vector<std::int32_t> answered() const {
    std::vector<std::int32_t> list;
    for (auto const& e : events_)
      if (e.kind == L2Event::Kind::served) list.push_back(e.bundle);
    return list;
  }
  std::vector<std::uint64_t> to_memory(AccessKind kind) const {
    std::vector<std::uint64_t> list;
    for (auto const& e : events_)
      if (e.kind == L2Event::Kind::to_memory && e.access == kind) list.push_back(e.line);
    return list;
  }
  L2Slice& operator*() { return slice_; }

 private:
  L2Slice slice_;
  std::vector<L2Event> events_;
};

TEST(L2Slice, FetchesAMissingSectorOnceAndAnswersAllWhoWait) {
  Slice slice(unlimited(), 4, 4);
  slice.ask(load, 1, 3, 10);
  slice.ask(load, 1, 3, 11);
  slice.ask(load, 1, 12, 12);
  slice.run();
  EXPECT_THAT(slice.to_memory(AccessKind::read), ElementsAre(1, 1)) << "two sectors, then the other two";
  EXPECT_THAT(slice.answered(), IsEmpty());
  slice.fill(100, 1, 3);
  EXPECT_THAT(slice.answered(), testing::UnorderedElementsAre(10, 11));
  slice.fill(110, 1, 12);
  EXPECT_THAT(slice.answered(), ElementsAre(12));
  slice.ask(load, 1, all, 13);
  slice.run();
  EXPECT_THAT(slice.answered(), ElementsAre(13));
  EXPECT_THAT(slice.to_memory(AccessKind::read), IsEmpty());
}

TEST(L2Slice, WritesBackTheOldestDirtyLineOfASet) {
  Slice slice(unlimited(), 1, 2);
  slice.ask(store, 1, all, 1);
  slice.ask(store, 2, all, 2);
  slice.ask(store, 1, all, 3);
  slice.run();
  EXPECT_THAT(slice.answered(), ElementsAre(1, 2, 3)) << "stores fetch nothing";
  slice.ask(store, 3, all, 4);
  slice.run();
  EXPECT_THAT(slice.to_memory(AccessKind::write), ElementsAre(2));
  slice.ask(store, 4, 1, 5);
  slice.run();
  EXPECT_THAT(slice.to_memory(AccessKind::write), ElementsAre(1)) << "stored again after line 2";
}

TEST(L2Slice, AnswersOnceForASectorThatIsStoredWhileItIsFetched) {
  Slice slice(unlimited(), 4, 4);
  slice.ask(load, 1, 1, 10);
  slice.ask(store, 1, 1, 11);
  slice.ask(load, 1, 1, 12);
  slice.run();
  EXPECT_THAT(slice.answered(), ElementsAre(11, 12));
  slice.fill(100, 1, 1);
  EXPECT_THAT(slice.answered(), ElementsAre(10));
}

TEST(L2Slice, ServesASectorAClock) {
  Slice slice(unlimited(), 4, 4);
  for (int i = 0; i < 3; ++i) slice.ask(store, static_cast<std::uint64_t>(i), all, i);
  slice.run(8);
  EXPECT_THAT(slice.answered(), ElementsAre(0, 1)) << "at 0 and 4 ns; the third at 8";
  slice.run(9);
  EXPECT_THAT(slice.answered(), ElementsAre(2));
}

TEST(L2Slice, EvenHitsWaitWhileTheQueueToMemoryIsFull) {
  auto hardware = unlimited();
  hardware.l2_to_dram_entries = 4;
  Slice slice(hardware, 4, 4);
  slice.ask(store, 1, all, 1);
  slice.ask(through, 2, all, 2);
  slice.ask(load, 1, all, 3);
  slice.run(100);
  EXPECT_THAT(slice.to_memory(AccessKind::update), ElementsAre(2));
  EXPECT_THAT(slice.answered(), ElementsAre(1));
  EXPECT_TRUE((*slice).busy());
  (*slice).left_queue(1);
  slice.run(200);
  EXPECT_THAT(slice.answered(), ElementsAre(3));
}

TEST(L2Slice, StandsStillWithoutAnEntryForAMissOrForOneMoreWhoWaits) {
  auto hardware = unlimited();
  hardware.l2_misses = 4;
  hardware.l2_merges = 2;
  Slice slice(hardware, 4, 4);
  slice.ask(load, 1, all, 1);
  slice.ask(load, 2, all, 2);
  slice.run(50);
  EXPECT_THAT(slice.to_memory(AccessKind::read), ElementsAre(1)) << "four sectors are under way";
  slice.fill(60, 1);
  slice.run(100);
  EXPECT_THAT(slice.to_memory(AccessKind::read), ElementsAre(2));
  slice.ask(load, 2, 1, 3);
  slice.ask(load, 2, 1, 4);
  slice.run(150);
  slice.ask(load, 1, all, 5);
  slice.run(200);
  EXPECT_THAT(slice.answered(), IsEmpty()) << "line 1 is there, behind a request that cannot be merged";
  slice.fill(210, 2);
  EXPECT_THAT(slice.answered(), testing::UnorderedElementsAre(2, 3));
  slice.run(300);
  EXPECT_THAT(slice.answered(), ElementsAre(4, 5));
}

TEST(L2Slice, EachSectorHasItsOwnWaiters) {
  auto hardware = unlimited();
  hardware.l2_merges = 2;
  Slice slice(hardware, 4, 4);
  slice.ask(load, 7, all, 0);
  slice.run(50);
  slice.fill(60, 7);
  slice.ask(load, 1, 0b01, 1);
  slice.ask(load, 1, 0b10, 2);
  slice.ask(load, 1, 0b11, 3);  // the second of both sectors
  slice.ask(load, 7, all, 4);
  slice.run(100);
  EXPECT_THAT(slice.answered(), ElementsAre(4)) << "the third request stands in nobody's way";
  slice.ask(load, 1, 0b10, 5);  // the third of sector 1
  slice.ask(load, 7, all, 6);
  slice.run(150);
  EXPECT_THAT(slice.answered(), IsEmpty());
}

TEST(L2Slice, StandsStillWhileAllLinesOfASetWaitForMemory) {
  Slice slice(unlimited(), 1, 2);
  for (int i = 0; i < 3; ++i) slice.ask(load, static_cast<std::uint64_t>(i + 1), all, i);
  slice.run(50);
  EXPECT_THAT(slice.to_memory(AccessKind::read), ElementsAre(1, 2));
  slice.fill(60, 1);
  slice.run(100);
  EXPECT_THAT(slice.to_memory(AccessKind::read), ElementsAre(3));
}

}  // namespace
}  // namespace tessera::overlap
