// SPDX-License-Identifier: Apache-2.0
// Data tokens on CPU threads: the same code as on a GPU, with the host's atomics behind it.
#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "support/fake_clock.hpp"
#include "support/real_clock.hpp"
#include "tessera/sync/data_token.cuh"

namespace tessera {
namespace {

TEST(DataToken, LayoutIsOneAccessWide) {
  static_assert(sizeof(Packet<1>) == 8 && alignof(Packet<1>) == 8);
  static_assert(sizeof(Packet<3>) == 16 && alignof(Packet<3>) == 16);
  static_assert(sizeof(MarkedWords) == 16 && alignof(MarkedWords) == 16);
  static_assert(std::is_trivially_copyable_v<Packet<3>> && std::is_trivially_copyable_v<MarkedWords>);
}

TEST(DataToken, ZeroedMemoryBelongsToNoLaunchYet) {
  static_assert(!carries(Packet<1>{}, 0) && !carries(Packet<3>{}, 0) && !carries(MarkedWords{}, 0));
  // The last launch that a packet can tell from zeroed memory is the one before the wrap.
  static_assert(token_of(0xFFFFFFFEu) == 0xFFFFFFFFu);
}

TEST(DataToken, EachElementProvesItself) {
  MarkedWords marked;
  put(&marked, {{0x12345678u, 0xFFFFFFFFu, 0u, 0x80017FFEu}}, 0);
  EXPECT_TRUE(carries(marked, 0));
  EXPECT_FALSE(carries(marked, 1));
  EXPECT_EQ(marked.word[0], 0x12355679u);
  // One element of eight from the launch before.
  marked.word[2] &= ~0x00010000u;
  EXPECT_FALSE(carries(marked, 0));
}

TEST(DataToken, AMissingItemMeetsItsDeadline) {
  Packet<3> packets[2] = {};
  put(&packets[0], Packet<3>{{1, 2, 3}, 0}, 4);
  put(&packets[1], Packet<3>{{1, 2, 3}, 0}, 3);
  StallRecord record;
  support::FakeWatch const watch{&record, 100};
  Packet<3> read[2];
  EXPECT_FALSE(take(packets, 1, 4u, read, watch, WaitPlace{1, 77, 0}));
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.stage, 1);
  EXPECT_EQ(record.tile, 77);
  EXPECT_EQ(record.semaphore, k_data_token);
  EXPECT_EQ(record.seen, 4u);
  EXPECT_EQ(record.expected, 5u);
  put(&packets[1], Packet<3>{{4, 5, 6}, 0}, 4);
  EXPECT_TRUE(take(packets, 1, 4u, read, watch, WaitPlace{}));
  EXPECT_EQ(read[1].payload[2], 6u);
}

void fill(Packet<1>& item, unsigned value) { item.payload[0] = value; }
void fill(Packet<3>& item, unsigned value) {
  for (unsigned i = 0; i < 3; ++i) item.payload[i] = value + i;
}
void fill(MarkedWords& item, unsigned value) {
  for (unsigned i = 0; i < 4; ++i) item.word[i] = (value + i) * 2 & ~k_token_bits;
}
bool holds(Packet<1> const& item, unsigned value) { return item.payload[0] == value; }
bool holds(Packet<3> const& item, unsigned value) {
  return item.payload[0] == value && item.payload[1] == value + 1 && item.payload[2] == value + 2;
}
bool holds(MarkedWords const& item, unsigned value) {
  for (unsigned i = 0; i < 4; ++i)
    if ((item.word[i] & ~k_token_bits) != ((value + i) * 2 & ~k_token_bits)) return false;
  return true;
}

/// Two hundred launches each way; a side may start one when it has read the other's last one.
template <class Item>
void expect_hand_overs() {
  constexpr int k_items = 6;
  std::vector<Item> there(k_items), back(k_items);
  StallRecord stall;
  support::RealWatch const watch{&stall, support::k_patience_ns};
  int wrong = 0;
  std::thread other([&] {
    for (unsigned epoch = 0; epoch < 200; ++epoch) {
      Item read[3];
      for (int first = 0; first < 2; ++first) {
        take(there.data() + first, 2, epoch, read, watch, WaitPlace{});
        for (int i = 0; i < 3; ++i)
          if (!holds(read[i], epoch * 100 + static_cast<unsigned>(first + 2 * i))) ++wrong;
      }
      for (unsigned i = 0; i < k_items; ++i) {
        Item item;
        fill(item, epoch * 7 + i);
        put(&back[i], item, epoch);
      }
    }
  });
  int wrong_back = 0;
  for (unsigned epoch = 0; epoch < 200; ++epoch) {
    for (unsigned i = 0; i < k_items; ++i) {
      Item item;
      fill(item, epoch * 100 + i);
      put(&there[i], item, epoch);
    }
    Item read[k_items];
    take(back.data(), 1, epoch, read, watch, WaitPlace{});
    for (unsigned i = 0; i < k_items; ++i)
      if (!holds(read[i], epoch * 7 + i)) ++wrong_back;
  }
  other.join();
  EXPECT_EQ(stall.state, 0u);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_back, 0);
}

TEST(DataToken, HandsOverPacketsOfEightBytes) { expect_hand_overs<Packet<1>>(); }
TEST(DataToken, HandsOverPacketsOfSixteenBytes) { expect_hand_overs<Packet<3>>(); }
TEST(DataToken, HandsOverMarkedElements) { expect_hand_overs<MarkedWords>(); }

TEST(DataToken, ALaunchNumberCountsItsOwnLaunches) {
  unsigned word = 0;
  LaunchNumber const number{&word};
  for (unsigned launch = 0; launch < 3; ++launch) {
    EXPECT_EQ(number.read(), launch);
    number.finish(launch);
  }
}

}  // namespace
}  // namespace tessera
