// SPDX-License-Identifier: Apache-2.0
// A memory channel against the limits that its times set.
#include <gmock/gmock.h>

#include "overlap/dram_channel.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera::overlap {
namespace {

OverlapHardware hardware() { return *machine("t3").value().overlap; }

/// Serves accesses that are all there at once; returns requests of 32 bytes a cycle.
double rate(OverlapHardware const& h, std::vector<Access> const& accesses,
            Arbitration policy = Arbitration::round_robin) {
  DramChannel channel(h, policy, 0);
  double atoms = 0;
  for (auto access : accesses) {
    access.total = access.atoms;
    atoms += access.atoms;
    channel.push(access.bundle == 1 ? Stream::communication : Stream::compute, access);
  }
  std::vector<ChannelEvent> events;
  channel.advance(std::int64_t{1} << 40, events);
  EXPECT_TRUE(channel.idle());
  std::int64_t last = 0;
  double served = 0;
  for (auto const& event : events)
    if (event.kind == ChannelEvent::Kind::served) {
      served += event.atoms;
      last = std::max(last, event.cycle);
    }
  EXPECT_EQ(served, atoms) << "everything is served once";
  EXPECT_LE(channel.peak_occupancy(), h.queue_entries);
  return atoms / static_cast<double>(last);
}

std::vector<Access> stream(OverlapHardware const& h, AccessKind kind, int lines, std::uint64_t base = 0,
                           std::int32_t bundle = 0) {
  DramAddressMap const map(h);
  std::vector<Access> accesses;
  for (int i = 0; i < lines; ++i) {
    auto const place = map.place(base + static_cast<std::uint64_t>(i) * 256);
    accesses.push_back({0, place.row, place.bank, kind, 8, 8, bundle});
  }
  return accesses;
}

TEST(Channel, StreamsReachThePeak) {
  EXPECT_GT(rate(hardware(), stream(hardware(), AccessKind::read, 4000)), 0.97);
  EXPECT_GT(rate(hardware(), stream(hardware(), AccessKind::write, 4000)), 0.97);
}

TEST(Channel, OpAndStoreCostsWhatTheAddressMapMakesOfIt) {
  auto h = hardware();
  auto const slow = rate(h, stream(h, AccessKind::update, 4000));
  EXPECT_LT(slow, 0.9);
  h.bank_groups_lowest = true;
  EXPECT_GT(rate(h, stream(h, AccessKind::update, 4000)), 0.97) << "four bank groups in turn hide CCDWL = 4";
  h.ccdwl = 8;
  EXPECT_LT(rate(h, stream(h, AccessKind::update, 4000)), 0.6);
}

TEST(Channel, OneIdleReadIsActivateColumnAndBurst) {
  auto const h = hardware();
  DramChannel channel(h, Arbitration::round_robin, 0);
  channel.push(Stream::compute, {0, 3, 5, AccessKind::read, 1, 1, 0});
  std::vector<ChannelEvent> events;
  channel.advance(1000, events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_NEAR(static_cast<double>(events[1].cycle), h.rcd + h.cl + 1, 1);
}

TEST(Channel, OneBankDifferentRowsIsOneRowCycleEach) {
  auto const h = hardware();
  std::vector<Access> accesses;
  for (std::uint32_t i = 0; i < 1000; ++i) accesses.push_back({0, i, 0, AccessKind::read, 1, 1, 0});
  EXPECT_NEAR(1 / rate(h, accesses), h.rc, 1.5);
}

TEST(Channel, OneBankGroupIsItsColumnTime) {
  auto const h = hardware();
  std::vector<Access> accesses;
  for (int i = 0; i < 500; ++i) accesses.push_back({0, 0, 0, AccessKind::read, 8, 8, 0});
  EXPECT_NEAR(1 / rate(h, accesses), h.ccdl, 0.05);
  for (auto& access : accesses) access.kind = AccessKind::update;
  EXPECT_NEAR(1 / rate(h, accesses), h.ccdwl, 0.05);
}

TEST(Channel, MixedStreamsPayForTheBusAndTheRows) {
  auto const h = hardware();
  auto mixed = stream(h, AccessKind::read, 2000);
  auto const updates = stream(h, AccessKind::update, 2000, 1 << 24, 1);
  mixed.insert(mixed.end(), updates.begin(), updates.end());
  auto const fair = rate(h, mixed);
  EXPECT_LT(fair, 0.85);
  EXPECT_GT(fair, 0.3);
}

}  // namespace
}  // namespace tessera::overlap
