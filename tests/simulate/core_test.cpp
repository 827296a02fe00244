// SPDX-License-Identifier: Apache-2.0
// The event core, which knows nothing of GPUs.
#include <gmock/gmock.h>

#include "simulate/event_queue.hpp"
#include "simulate/shared_server.hpp"

namespace tessera::simulation {
namespace {

using testing::ElementsAre;

std::vector<int> drain(EventQueue& queue) {
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  return order;
}

TEST(EventQueue, OrdersByTimePriorityAndSequenceWhateverTheOrderOfSetting) {
  std::vector<std::vector<int>> const settings{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}};
  for (auto const& setting : settings) {
    EventQueue queue;
    for (int const priority : {1, 0, 1, 0, 2}) queue.add(priority);
    for (int const component : setting) queue.wake(component, component == 4 ? 5 : 10);
    EXPECT_THAT(drain(queue), ElementsAre(4, 1, 3, 0, 2));
  }
}

TEST(EventQueue, ASecondWakeUpMovesTheFirst) {
  EventQueue queue;
  for (int i = 0; i < 3; ++i) queue.add(0);
  queue.wake(0, 10);
  queue.wake(1, 20);
  queue.wake(2, 30);
  queue.wake(2, 5);
  queue.wake(0, 25);
  queue.sleep(1);
  EXPECT_EQ(queue.next_time(), 5);
  EXPECT_THAT(drain(queue), ElementsAre(2, 0));
}

std::vector<std::pair<Picoseconds, int>> ends(SharedServer& server, Picoseconds now) {
  std::vector<std::pair<Picoseconds, int>> result;
  for (auto next = server.next(now); next != k_never; next = server.next(now)) {
    now = next;
    server.complete(now, [&](std::int32_t flow) { result.push_back({now, flow}); });
  }
  return result;
}

TEST(SharedServer, EqualSharesAndTheRestForThoseWhoStay) {
  SharedServer server(2.0);  // 2 bytes per picosecond
  server.join(0, 100, 7);
  server.join(0, 300, 8);
  // One byte per picosecond each until 100; then flow 8 has 200 left at two.
  EXPECT_THAT(ends(server, 0), ElementsAre(std::pair(100, 7), std::pair(200, 8)));
  EXPECT_EQ(server.total(), 400);
  EXPECT_EQ(server.limited(), 200);
}

TEST(SharedServer, ALateFlowSlowsTheFirst) {
  SharedServer server(1.0);
  server.join(0, 100, 1);
  server.join(50, 25, 2);
  EXPECT_THAT(ends(server, 50), ElementsAre(std::pair(100, 2), std::pair(125, 1)));
}

TEST(SharedServer, ACapHoldsALoneFlowBack) {
  SharedServer server(4.0, 1.0);
  server.join(0, 100, 1);
  EXPECT_THAT(ends(server, 0), ElementsAre(std::pair(100, 1)));
  EXPECT_EQ(server.limited(), 0) << "the cap ruled, not the rate";
}

}  // namespace
}  // namespace tessera::simulation
