// SPDX-License-Identifier: Apache-2.0
// Slices of L2 and the channel behind them: cases whose times and orders are computed by hand.
#include "overlap/memory_partition.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"

namespace tessera::overlap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = PartitionEvent::Kind;

constexpr std::uint8_t all = 15;

/// One channel with one slice, a cycle of memory a ns, a sector of L2 a ns, and nothing between them.
MachineProfile by_hand() {
  auto machine = tessera::machine("t3").value();
  auto& h = *machine.overlap;
  h.channels = h.l2_slices = 1;
  machine.l2_gbps = k_atom_bytes;  // one sector a ns
  machine.l2_mib = 1;
  h.dram_clock_ghz = 1;
  h.l2_to_dram_ns = 0;
  h.rcd = 10;
  h.cl = 5;
  h.ccd = 1;
  h.ccdl = 2;
  return machine;
}

class Partition {
 public:
  explicit Partition(MachineProfile const& machine, Arbitration policy = Arbitration::round_robin,
                     int fixed_threshold = 0)
      : machine_(machine), partition_(machine_, policy, fixed_threshold) {}

  void ask(L2Request::Kind kind, std::uint64_t line, std::int32_t bundle, double arrival = 0,
           std::uint8_t sectors = all) {
    partition_.push({arrival, line, bundle, sectors, kind, AccessKind::write});
  }
  void past_l2(Stream stream, std::uint64_t local, AccessKind kind, std::int32_t bundle,
               std::int64_t arrival = 0) {
    auto const place = DramAddressMap(*machine_.overlap).place(local);
    partition_.push(stream, {arrival, place.row, place.bank, kind, 4, 4, bundle});
  }
  /// Runs until nothing is left to do, cycle by cycle or all at once.
  void run(std::int64_t step = 1) {
    events_.clear();
    for (auto until = partition_.idle() ? 0 : partition_.next_cycle() + step; !partition_.idle();
         until += step)
      partition_.advance(until, events_);
  }
  /// When events of a kind were, in ns, and of which bundle.
  std::vector<std::pair<std::int32_t, double>> all_of(Kind kind) const {
    std::vector<std::pair<std::int32_t, double>> list;
    for (auto const& event : events_)
      if (event.kind == kind) list.emplace_back(event.bundle, event.ns);
    return list;
  }
  int sectors_of(Kind kind) const {
    int sum = 0;
    for (auto const& event : events_) sum += event.kind == kind ? event.sectors : 0;
    return sum;
  }

 private:
  MachineProfile machine_;
  MemoryPartition partition_;
  std::vector<PartitionEvent> events_;
};

constexpr auto load = L2Request::Kind::load;
constexpr auto store = L2Request::Kind::store;
constexpr auto through = L2Request::Kind::through;

TEST(MemoryPartition, AMissComesFromMemoryAndAHitDoesNot) {
  Partition p(by_hand());
  p.ask(load, 0, 1);
  p.run();
  // Looked up at 0 and admitted at once, sector by sector. The row is open at 10; columns of one bank group
  // follow each other by 2 cycles: 10, 12, 14, 16. The last data is there cl + 1 later, at 22.
  EXPECT_THAT(p.all_of(Kind::fetched), ElementsAre(std::pair{-1, 22.0}));
  EXPECT_THAT(p.all_of(Kind::loaded), ElementsAre(std::pair{1, 22.0}));
  EXPECT_EQ(p.sectors_of(Kind::fetched), 4);
  p.ask(load, 0, 2, 30);
  p.run();
  EXPECT_THAT(p.all_of(Kind::fetched), IsEmpty());
  EXPECT_THAT(p.all_of(Kind::loaded), ElementsAre(std::pair{2, 30.0}));
}

TEST(MemoryPartition, TwoWhoAskForALineFetchItOnce) {
  Partition p(by_hand());
  p.ask(load, 0, 1);
  p.ask(load, 0, 2);
  p.run();
  EXPECT_EQ(p.sectors_of(Kind::fetched), 4);
  EXPECT_EQ(p.sectors_of(Kind::loaded), 8);
}

TEST(MemoryPartition, StoresStayInL2UntilTheirLineIsEvicted) {
  auto machine = by_hand();
  machine.overlap->l2_ways = 1;
  machine.l2_mib = 128.0 / (1 << 20);  // one line
  Partition p(machine);
  p.ask(store, 0, 1, 0, 0b0011);
  p.run();
  EXPECT_THAT(p.all_of(Kind::stored), ElementsAre(std::pair{1, 0.0}));
  EXPECT_EQ(p.sectors_of(Kind::evicted), 0);
  p.ask(load, 1, 2, 10);
  p.run();
  EXPECT_EQ(p.sectors_of(Kind::evicted), 2) << "only what was stored";
  EXPECT_EQ(p.sectors_of(Kind::fetched), 4);
}

TEST(MemoryPartition, WhatGoesThroughTellsWhenItIsQueuedAndServed) {
  Partition p(by_hand());
  p.ask(through, 0, 7);
  p.run();
  // Four sectors enter the queue at 0 to 3; columns at 10, 12, 14 and 16.
  EXPECT_THAT(p.all_of(Kind::queued), ElementsAre(std::pair{7, 3.0}));
  EXPECT_THAT(p.all_of(Kind::served), ElementsAre(std::pair{7, 16.0}));
  EXPECT_THAT(p.all_of(Kind::stored), IsEmpty());
}

TEST(MemoryPartition, PastL2NothingIsKept) {
  Partition p(by_hand());
  p.past_l2(Stream::communication, 0, AccessKind::read, 3);
  p.run();
  EXPECT_THAT(p.all_of(Kind::queued), ElementsAre(std::pair{3, 3.0}));
  EXPECT_THAT(p.all_of(Kind::served), ElementsAre(std::pair{3, 22.0}));
  p.ask(load, 0, 4, 30);
  p.run();
  EXPECT_EQ(p.sectors_of(Kind::fetched), 4) << "L2 has not seen it";
}

TEST(MemoryPartition, AFixedThresholdDecidesWhetherCommunicationGoesBeforeLaterCompute) {
  auto machine = by_hand();
  machine.overlap->starvation_cycles = 0;
  auto const served = [&](int threshold) {
    Partition p(machine, Arbitration::communication_aware, threshold);
    p.past_l2(Stream::compute, 0, AccessKind::write, 1);
    p.past_l2(Stream::communication, 0, AccessKind::write, 2);
    p.past_l2(Stream::compute, 0, AccessKind::write, 3, 8);
    p.run();
    return p.all_of(Kind::served);
  };
  // The first access goes into the queue from 0 to 3, and its columns are at 10, 12, 14 and 16. With room for
  // 64 the second one follows from 4 to 7, before the third has come. With room for one it waits until the
  // queue is empty, which the third one keeps it from being until 24, and goes in request by request.
  EXPECT_THAT(served(64), ElementsAre(std::pair{1, 16.0}, std::pair{2, 24.0}, std::pair{3, 32.0}));
  EXPECT_THAT(served(1), ElementsAre(std::pair{1, 16.0}, std::pair{3, 24.0}, std::pair{2, 26.0},
                                     std::pair{2, 28.0}, std::pair{2, 30.0}, std::pair{2, 32.0}));
}

TEST(MemoryPartition, AHitWaitsBehindAMissThatHasNoRoom) {
  auto machine = by_hand();
  Partition p(machine);
  p.ask(load, 0, 1);
  p.run();
  machine.overlap->l2_to_dram_entries = 4;
  machine.overlap->queue_entries = 1;  // so that the slice's queue to memory empties slowly
  Partition full(machine);
  full.ask(load, 0, 1);
  full.run();
  full.ask(through, 1, 2, 100);
  full.ask(through, 2, 3, 100);
  full.ask(load, 0, 4, 100);  // a hit
  full.run();
  auto const hit = full.all_of(Kind::loaded);
  ASSERT_EQ(hit.size(), 1U);
  EXPECT_GT(hit.front().second, 108)
      << "without a limit it is served at 108, when the slice has passed two lines";
  p.ask(through, 1, 2, 100);
  p.ask(through, 2, 3, 100);
  p.ask(load, 0, 4, 100);
  p.run();
  EXPECT_THAT(p.all_of(Kind::loaded), ElementsAre(std::pair{4, 108.0}));
}

/// Hits, misses, evictions, updates and both streams: the length of a call says nothing about what happens.
TEST(MemoryPartition, TheSameCycleByCycleAndAtOnce) {
  auto machine = by_hand();
  machine.l2_mib = 16.0 * 128 / (1 << 20);
  machine.overlap->l2_ways = 4;
  machine.overlap->l2_to_dram_entries = 8;
  auto const fill = [](Partition& p) {
    for (int i = 0; i < 200; ++i) {
      auto const line = static_cast<std::uint64_t>(i * 7 % 40);
      p.ask(i % 5 == 0 ? store : i % 3 == 0 ? through : load, line, i, i * 3);
      if (i % 4 == 0) p.past_l2(Stream::communication, line * 4096, AccessKind::update, 1000 + i);
    }
  };
  Partition one(machine), other(machine);
  fill(one);
  fill(other);
  one.run(1);
  other.run(100'000);
  for (auto const kind :
       {Kind::queued, Kind::loaded, Kind::stored, Kind::served, Kind::fetched, Kind::evicted}) {
    EXPECT_EQ(one.all_of(kind), other.all_of(kind)) << static_cast<int>(kind);
    EXPECT_FALSE(one.all_of(kind).empty()) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace tessera::overlap
