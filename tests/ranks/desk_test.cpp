// SPDX-License-Identifier: Apache-2.0
// Rank 0's desk, on a clock of the test's: who has come, who is late, and what every rank is told.
#include "ranks/desk.hpp"

#include <gtest/gtest.h>

namespace tessera::ranks {
namespace {

class DeskOf3 : public testing::Test {
 protected:
  static Hello hello(int rank, int size = 3, std::string const& version = "1") {
    Hello one;
    one.version = version;
    one.rank = rank;
    one.size = size;
    one.process = 100 + rank;
    one.host = "here";
    return one;
  }
  /// Connections are 10 more than their ranks.
  void come(int rank, double now = 0) { desk.hear(10 + rank, message_of(hello(rank)), now); }
  void all_come() {
    for (int rank = 0; rank < 3; ++rank) come(rank);
    desk.take();
  }
  void offer(int rank, std::string const& what, double now, long long number = 1, double deadline = 8) {
    desk.hear(10 + rank, message_of(Offer{number, what, deadline, "of " + std::to_string(rank)}), now);
  }
  /// What the connections are sent: all the same.
  std::string said(std::vector<int> const& connections) {
    auto const out = desk.take();
    std::vector<int> to;
    for (auto const& [connection, message] : out) {
      to.push_back(connection);
      EXPECT_EQ(message, out.front().second);
    }
    EXPECT_EQ(to, connections);
    if (out.empty()) return "";
    auto const& message = out.front().second;
    if (message.kind == Kind::failure) return to_text(diagnostic_of(message));
    std::string text = message.kind == Kind::welcome ? "welcome" : "answer";
    for (auto const& word : message.words) text += ", " + word;
    return text;
  }

  Desk desk{hello(0), 0, 8};
};

TEST_F(DeskOf3, WelcomesAllWhenTheLastHasCome) {
  come(2);
  come(0);
  EXPECT_EQ(said({}), "");
  come(1, 7.9);
  desk.look(100);
  EXPECT_EQ(said({10, 11, 12}), "welcome, 100, here, 101, here, 102, here");
}

TEST_F(DeskOf3, NamesThoseWhoHaveNotCome) {
  come(0);
  desk.look(7.9);
  EXPECT_EQ(said({}), "");
  desk.look(8);
  EXPECT_EQ(
      said({10}),
      "error E0585: rank 1, 2 of 3 have not come within 8 s\n"
      "   hint: see whether these processes were started and reach rank 0's host; if they are only late, "
      "raise the deadline");
  // Who comes then hears the same.
  come(1, 9);
  EXPECT_EQ(said({11}).substr(0, 36), "error E0585: rank 1, 2 of 3 have not");
}

TEST_F(DeskOf3, RefusesOtherVersionsAndSizesAndNumbers) {
  come(0);
  desk.hear(11, message_of(hello(1, 3, "2")), 0);
  EXPECT_EQ(said({10, 11}),
            "error E0585: rank 1 (process 101 on here) is of version 2, rank 0 of 1\n"
            "   hint: install the same version for all ranks");
  Desk sizes{hello(0), 0, 8};
  sizes.hear(11, message_of(hello(1, 4)), 0);
  EXPECT_EQ(to_text(*sizes.failure()),
            "error E0585: rank 1 (process 101 on here) is one of 4 ranks, rank 0 one of 3\n"
            "   hint: start all ranks with the same WORLD_SIZE");
  Desk numbers{hello(0), 0, 8};
  numbers.hear(11, message_of(hello(3)), 0);
  EXPECT_EQ(to_text(*numbers.failure()),
            "error E0585: process 103 on here comes as rank 3 of 3\n   hint: number the ranks from 0");
}

TEST_F(DeskOf3, RefusesTwoProcessesOfOneNumber) {
  come(0);
  come(1);
  desk.hear(20, message_of(hello(1)), 0);
  EXPECT_EQ(said({10, 11, 20}),
            "error E0585: two processes are rank 1: 101 on here, and 101 on here\n"
            "   hint: give each process a RANK of its own, and each job a port of its own (TESSERA_PORT)");
}

TEST_F(DeskOf3, AnswersWhenAllHaveSaidSomething) {
  all_come();
  for (long long number = 1; number <= 3; ++number) {
    offer(1, "memory", 0, number);
    offer(0, "memory", 0, number);
    EXPECT_EQ(said({}), "");
    offer(2, "memory", 7, number);
    EXPECT_EQ(said({10, 11, 12}), "answer, of 0, of 1, of 2");
  }
}

TEST_F(DeskOf3, NamesWhoIsLateForACall) {
  all_come();
  offer(0, "memory", 50);
  offer(2, "memory", 55);
  desk.look(57.9);
  EXPECT_EQ(said({}), "");
  desk.look(58);
  EXPECT_EQ(said({10, 11, 12}),
            "error E0586: rank 1 (process 101 on here) has not come within 8 s\n"
            "   call 1: memory\n"
            "   hint: see whether that process hangs; if it is only late, raise the deadline");
}

TEST_F(DeskOf3, NamesTheCallsThatDiffer) {
  all_come();
  offer(0, "finish", 0);
  offer(2, "memory of 5 bytes", 0);
  EXPECT_EQ(
      said({10, 11, 12}),
      "error E0586: rank 0 (process 100 on here) and rank 2 (process 102 on here) make different calls\n"
      "   rank 0, call 1: finish\n"
      "   rank 2, call 1: memory of 5 bytes\n"
      "   hint: let every rank make the same calls in the same order, of the same sizes and options");
}

TEST_F(DeskOf3, NamesWhoHasEnded) {
  come(0);
  come(1);
  desk.end(11);
  EXPECT_EQ(said({10}),
            "error E0585: rank 1 (process 101 on here) has ended\n"
            "   hint: see what that process says, and start all ranks anew");
  Desk met{hello(0), 0, 8};
  for (int rank = 0; rank < 3; ++rank) met.hear(10 + rank, message_of(hello(rank)), 0);
  met.hear(10, message_of(Offer{4, "memory", 8, ""}), 0);
  met.end(11);
  EXPECT_EQ(to_text(*met.failure()),
            "error E0586: rank 1 (process 101 on here) has ended\n"
            "   rank 0 is in call 4: memory\n"
            "   hint: see what that process says, and start all ranks anew");
}

TEST_F(DeskOf3, WhoSaysGoodbyeIsMissedOnlyWhenACallIsMade) {
  all_come();
  desk.hear(11, {Kind::goodbye, {}}, 0);
  desk.end(11);
  desk.look(100);
  EXPECT_EQ(said({}), "");
  offer(2, "memory", 101);
  EXPECT_EQ(said({10, 12}),
            "error E0586: rank 1 (process 101 on here) has left the group\n"
            "   the others are in call 1: memory\n"
            "   hint: let every rank make the same calls in the same order, of the same sizes and options");
}

TEST_F(DeskOf3, TellsAllWhatOneRankGivesUpFor) {
  all_come();
  Diagnostic why;
  why.code = "E0582";
  why.message = "rank 2 waits for rank 0";
  desk.hear(12, failure_of(why), 0);
  EXPECT_EQ(said({10, 11, 12}), "error E0582: rank 2 waits for rank 0");
}

TEST_F(DeskOf3, HearsNothingOfStrangers) {
  come(0);
  desk.hear(20, {Kind::offer, {"1", "x", "8", ""}}, 0);
  desk.hear(20, {Kind::hello, {"what"}}, 0);
  desk.end(20);
  EXPECT_EQ(said({}), "");
  EXPECT_FALSE(desk.failure());
}

}  // namespace
}  // namespace tessera::ranks
