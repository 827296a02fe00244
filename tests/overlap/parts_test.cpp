// SPDX-License-Identifier: Apache-2.0
// The hardware's parts, each alone.
#include <gmock/gmock.h>

#include "overlap/arbiter.hpp"
#include "overlap/copy_engine.hpp"
#include "overlap/link.hpp"
#include "overlap/sm_ports.hpp"
#include "overlap/tile_route.hpp"
#include "overlap/tracker.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace tessera::overlap {
namespace {

OverlapHardware hardware() { return *machine("t3").value().overlap; }

TEST(Tracker, TriggersOnceAndNotEarlier) {
  Tracker tracker(256, 8, 100, 8);
  for (int update = 0; update < 15; ++update) EXPECT_FALSE(tracker.update(9, 1, 16));
  EXPECT_EQ(tracker.peak(), 1);
  EXPECT_TRUE(tracker.update(9, 1, 16));
  EXPECT_EQ(tracker.overflows(), 0);
}

TEST(Tracker, HoldsEightWavefrontsOf256WorkGroupsAndCountsWhatDoesNotFit) {
  Tracker tracker(256, 8, 257 * 8, 8);
  for (int region = 0; region < 256 * 8; ++region) tracker.update(region, 1, 2);
  EXPECT_EQ(tracker.overflows(), 0);
  tracker.update(256 * 8, 1, 2);  // the work-group whose low eight bits are those of the first
  EXPECT_EQ(tracker.overflows(), 1);
  EXPECT_EQ(tracker.most_in_set(), 9);
}

TEST(Arbiter, RoundRobinTakesTurnsAndFallsBack) {
  auto const h = hardware();
  Arbiter arbiter(h, Arbitration::round_robin, 0);
  EXPECT_EQ(arbiter.choose(true, true, 0, 0), 0);
  EXPECT_EQ(arbiter.choose(true, true, 0, 1), 1);
  EXPECT_EQ(arbiter.choose(true, true, 0, 2), 0);
  EXPECT_EQ(arbiter.choose(false, true, 0, 3), 1);
  EXPECT_EQ(arbiter.choose(false, false, 0, 4), Arbiter::k_neither);
}

TEST(Arbiter, ThresholdFollowsFromTheKernelAlone) {
  auto const h = hardware();
  auto const chosen = [&](int occupancy) {
    Arbiter arbiter(h, Arbitration::communication_aware, 0);
    arbiter.watch(occupancy, 1000);
    arbiter.choose(false, true, 0, 1000);
    arbiter.watch(64, 100000);  // later occupancy changes nothing
    return arbiter.threshold();
  };
  EXPECT_EQ(chosen(60), h.threshold_high);
  EXPECT_EQ(chosen(20), h.threshold_medium);
  EXPECT_EQ(chosen(10), h.threshold_low);
  EXPECT_EQ(chosen(2), h.queue_entries);
}

TEST(Arbiter, CommunicationWaitsForRoomButDoesNotStarve) {
  auto h = hardware();
  h.starvation_cycles = 100;
  Arbiter arbiter(h, Arbitration::communication_aware, 5);
  EXPECT_EQ(arbiter.choose(true, true, 0, 1), 0) << "compute first";
  EXPECT_EQ(arbiter.choose(false, true, 5, 2), Arbiter::k_neither) << "no room kept for compute";
  EXPECT_EQ(arbiter.choose(false, true, 4, 3), 1);
  EXPECT_EQ(arbiter.choose(true, true, 60, 102), 0);
  EXPECT_EQ(arbiter.choose(true, true, 60, 103), 1) << "a hundred cycles after its last one";
  arbiter.drain();
  EXPECT_EQ(arbiter.choose(false, true, 60, 104), 1) << "the kernel is over";
}

TEST(Link, SendsOneAfterTheOther) {
  Link link(100, 500);
  EXPECT_EQ(link.send(0, {0, 1, false, 1000}), 10'000);
  EXPECT_EQ(link.send(0, {0, 2, false, 1000}), 20'000);
  EXPECT_EQ(link.next_arrival(), 510'000);
  EXPECT_EQ(link.receive().unit, 1);
  EXPECT_EQ(link.next_arrival(), 520'000);
}

TEST(CopyEngine, ReadsNoFurtherAheadThanItsBuffer) {
  CopyCommand const command{0, true, 0, {1}};
  CopyEngine engine(1000);
  for (int i = 0; i < 3; ++i) engine.add(&command, 5);
  EXPECT_EQ(engine.next(4, 500), nullptr) << "not ready yet";
  EXPECT_EQ(engine.next(5, 500), &command);
  EXPECT_EQ(engine.next(5, 500), &command);
  EXPECT_EQ(engine.next(5, 500), nullptr) << "full";
  engine.sent(70, 500);
  EXPECT_EQ(engine.resume_at(5), 70);
  EXPECT_EQ(engine.next(70, 500), &command);
}

TEST(SmPorts, PassOneRequestAfterTheOtherOfEachSm) {
  auto machine = tessera::machine("t3").value();
  machine.sms = 2;
  machine.sm_load_gbps = 100;  // 10 ps a byte
  machine.clock_ghz = 2;
  machine.overlap->sm_store_bytes_per_clock = 32;  // 64 bytes a ns
  SmPorts ports(machine);
  EXPECT_EQ(ports.load(0, 1000, 500), 10'500);
  EXPECT_EQ(ports.load(0, 1000, 600), 20'500) << "behind the first";
  EXPECT_EQ(ports.load(1, 1000, 600), 10'600) << "another SM has its own port";
  EXPECT_EQ(ports.load(0, 1000, 50'000), 60'000);
  EXPECT_EQ(ports.store_time(6400), 100'000);
}

TEST(TileRoutes, AreThoseOfARingReduceScatter) {
  // Four tiles in a row on four GPUs: GPU 1 sends tile 1, passes 2 and 3 on and keeps tile 0.
  auto const setup = fused_setup({256, 512, 64, true}, 4, {}).value();
  auto const routes = tile_routes(setup.fused[1]);
  ASSERT_EQ(routes.size(), 4U);
  EXPECT_FALSE(routes[1].local);
  EXPECT_EQ(routes[1].remote.size(), 1U);
  for (int const passed : {2, 3}) EXPECT_THAT(routes[passed].phases, testing::ElementsAre(2)) << passed;
  EXPECT_TRUE(routes[0].local);
  EXPECT_THAT(routes[0].phases, testing::IsEmpty());
  EXPECT_EQ(routes[0].updates, 2);
  for (auto const& route : tile_routes(setup.alone)) {
    EXPECT_TRUE(route.local);
    EXPECT_EQ(route.updates, 1);
  }
}

}  // namespace
}  // namespace tessera::overlap
