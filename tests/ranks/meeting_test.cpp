// SPDX-License-Identifier: Apache-2.0
// Real processes that meet over sockets: what each of them is told.
#include "tessera/ranks/meeting.hpp"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <sstream>
#include <thread>

#include "processes.hpp"
#include "support/real_clock.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Meeting, ProcessesTellEachOtherWhatTheyHave) {
  Port port;
  port.free();
  auto const talk = [](Meeting& meeting) {
    std::string text;
    for (int call = 0; call < 100; ++call)
      text = text_of(meeting.exchange("call", std::to_string(meeting.rank() * 1000 + call)));
    // More than a socket takes at once.
    auto const large =
        meeting.exchange("large", std::string(3 << 20, static_cast<char>('a' + meeting.rank())));
    if (!large) return to_text(large.error());
    for (auto const& one : *large) text += one.substr((3 << 20) - 1);
    return text + (meeting.process(meeting.rank()).process == getpid() ? "!" : "?");
  };
  Process const first(meets({0, 3}, port.number, talk)), second(meets({1, 3}, port.number, talk)),
      third(meets({2, 3}, port.number, talk));
  for (auto const* one : {&first, &second, &third}) EXPECT_EQ(one->said(), "99;1099;2099;abc!");
}

TEST(Meeting, ARankThatIsLateIsWaitedFor) {
  Port port;
  port.free();
  // Rank 1 comes first, and finds nobody for a while.
  Process const second(meets({1}, port.number));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Process const first(meets({0}, port.number));
  EXPECT_EQ(first.said(), "met");
  EXPECT_EQ(second.said(), "met");
}

TEST(Meeting, ARankThatDoesNotComeIsNamed) {
  Port port;
  port.free();
  Process const first(meets({0, 3, k_soon_s}, port.number)), second(meets({1, 3}, port.number));
  EXPECT_THAT(first.said(), HasSubstr("error E0585: rank "));
  EXPECT_THAT(second.said(), HasSubstr("error E0585: rank "));
}

TEST(Meeting, WithoutRank0NobodyListens) {
  Port port;
  port.free();
  Process const second(meets({1, 2, k_soon_s}, port.number));
  EXPECT_THAT(second.said(),
              StartsWith("error E0585: rank 0 has not come within 0.3 s: nobody listens at 127.0.0.1:" +
                         std::to_string(port.number)));
}

TEST(Meeting, APortThatIsTakenIsNamed) {
  Port port;
  ASSERT_EQ(listen(port.listening, 4), 0);
  Process const first(meets({0}, port.number));
  EXPECT_THAT(first.said(), StartsWith("error E0585: rank 0 cannot listen at 127.0.0.1:" +
                                       std::to_string(port.number) + ": Address already in use\n"));
  // Somebody takes its call and says nothing.
  auto const says = StartsWith("error E0585: what listens at 127.0.0.1:" + std::to_string(port.number) +
                               " does not answer as rank 0\n");
  auto const second = [&](double deadline_s) {
    return Process(meets({1, 2, deadline_s}, port.number)).said();
  };
  EXPECT_THAT(said_within_deadline(second, says), says);
}

TEST(Meeting, AnotherProgramsAnswerIsToldFromRank0) {
  Port port;
  ASSERT_EQ(listen(port.listening, 4), 0);
  Process const second(meets({1}, port.number));
  int const come = accept(port.listening, nullptr, nullptr);
  ASSERT_GT(write(come, "220 mail", 8), 0);
  EXPECT_THAT(second.said(), HasSubstr("does not answer as rank 0\n"));
  close(come);
  Process const third(meets({1}, port.number));
  close(accept(port.listening, nullptr, nullptr));
  EXPECT_THAT(third.said(), HasSubstr(" has ended the connection\n"));
}

TEST(Meeting, StrangersChangeNothing) {
  Port port;
  port.free();
  Process const first(meets({0}, port.number));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port.number));
  int stranger = -1;
  ASSERT_TRUE(support::comes_true([&] {
    if (stranger >= 0) close(stranger);
    stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(stranger, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }));
  ASSERT_GT(write(stranger, "GET / HTTP/1.1\r\n\r\n", 18), 0);
  Process const second(meets({1}, port.number));
  EXPECT_EQ(first.said(), "met");
  EXPECT_EQ(second.said(), "met");
  close(stranger);
}

TEST(Meeting, AnotherVersionIsNamedToAll) {
  Port port;
  port.free();
  Process const first(meets({0}, port.number)), second(meets({1, 2, k_patience_s, "2"}, port.number));
  auto const text = "error E0585: rank 1 (process " + std::to_string(second.number()) + " on ";
  for (auto const* one : {&first, &second}) {
    auto const said = one->said();
    EXPECT_THAT(said, StartsWith(text));
    EXPECT_THAT(said, HasSubstr(") is of version 2, rank 0 of 1\n"));
  }
}

TEST(Meeting, AnotherSizeIsNamedToAll) {
  Port port;
  port.free();
  Process const first(meets({0}, port.number)), second(meets({1, 4}, port.number));
  for (auto const* one : {&first, &second})
    EXPECT_THAT(one->said(), HasSubstr(") is one of 4 ranks, rank 0 one of 2\n"));
}

TEST(Meeting, TwoOfOneNumberAreNamedToAll) {
  Port port;
  port.free();
  Process const first(meets({0, 3}, port.number)), second(meets({1, 3}, port.number)),
      other(meets({1, 3}, port.number));
  for (auto const* one : {&first, &second, &other})
    EXPECT_THAT(one->said(), StartsWith("error E0585: two processes are rank 1: "));
}

/// Says goodbye to the world in the middle of things.
std::string dies(Meeting& meeting) {
  (void)meeting.exchange("once");
  _exit(1);
}
std::string exchanges_twice(Meeting& meeting) {
  if (auto const once = meeting.exchange("once"); !once) return to_text(once.error());
  auto const text = text_of(meeting.exchange("twice"));
  // For good.
  return text == text_of(meeting.exchange("again")) && meeting.lost() ? text : "changed: " + text;
}

TEST(Meeting, ARankThatDiesIsNamedToAll) {
  Port port;
  port.free();
  Process const first(meets({0, 3}, port.number, exchanges_twice)),
      second(meets({1, 3}, port.number, exchanges_twice)), third(meets({2, 3}, port.number, dies));
  for (auto const* one : {&first, &second}) {
    auto const said = one->said();
    EXPECT_THAT(said, StartsWith("error E0586: rank 2 (process " + std::to_string(third.number()) + " on "));
    EXPECT_THAT(said, HasSubstr(") has ended\n"));
  }
}

TEST(Meeting, Rank0ThatDiesIsNamedToAll) {
  Port port;
  port.free();
  Process const first(meets({0, 2}, port.number, dies)), second(meets({1, 2}, port.number, exchanges_twice));
  auto const said = second.said();
  EXPECT_THAT(said, StartsWith("error E0586: rank 0 (process " + std::to_string(first.number()) + " on "));
  // Before or after its last answer has left.
  EXPECT_THAT(said, HasSubstr(") has ended\n   call "));
}

TEST(Meeting, ARankThatHangsIsNamedToAll) {
  auto const hangs = [](Meeting& meeting) {
    (void)meeting.exchange("once");
    // Until it hears of it.
    while (!meeting.lost()) std::this_thread::yield();
    return to_text(*meeting.lost());
  };
  auto const all_say = [&](double deadline_s) {
    Port port;
    port.free();
    auto const goes_on = [&](Meeting& meeting) {
      (void)meeting.exchange("once");
      return text_of(meeting.exchange("twice", "", deadline_s));
    };
    Process const first(meets({0, 3}, port.number, goes_on)), second(meets({1, 3}, port.number, hangs)),
        third(meets({2, 3}, port.number, goes_on));
    auto const text = "error E0586: rank 1 (process " + std::to_string(second.number()) + " on ";
    std::ostringstream within;
    within << ") has not come within " << deadline_s << " s\n   call 2: twice\n";
    for (auto const* one : {&first, &second, &third}) {
      auto const said = one->said();
      if (!said.starts_with(text) || said.find(within.str()) == std::string::npos) return said;
    }
    return std::string("all name rank 1");
  };
  // A rank beside the one that hangs may be late, too.
  EXPECT_EQ(said_within_deadline(all_say, testing::Eq("all name rank 1")), "all name rank 1");
}

TEST(Meeting, Rank0ThatIsStoppedIsNamed) {
  Port port;
  port.free();
  Process const first(meets({0}, port.number, [](Meeting& meeting) {
    (void)meeting.exchange("once");
    raise(SIGSTOP);
    return std::string();
  }));
  // Rank 0 may have been stopped before its answer to the first call has left, or after its word that it is
  // late.
  Process const second(meets({1}, port.number, [](Meeting& meeting) {
    (void)meeting.exchange("once", "", k_soon_s);
    return text_of(meeting.exchange("twice", "", k_soon_s));
  }));
  EXPECT_THAT(second.said(),
              StartsWith("error E0586: rank 0 (process " + std::to_string(first.number()) + " on "));
}

TEST(Meeting, OtherCallsAreNamedToAll) {
  Port port;
  port.free();
  auto const calls = [](char const* what) {
    return [what](Meeting& meeting) { return text_of(meeting.exchange(what)); };
  };
  Process const first(meets({0}, port.number, calls("finish"))),
      second(meets({1}, port.number, calls("memory")));
  for (auto const* one : {&first, &second}) {
    auto const said = one->said();
    EXPECT_THAT(said, HasSubstr(" make different calls\n"));
    EXPECT_THAT(said, HasSubstr("call 1: finish\n"));
    EXPECT_THAT(said, HasSubstr("call 1: memory\n"));
  }
}

TEST(Meeting, WhoLeavesIsMissed) {
  Port port;
  port.free();
  auto const once = [](Meeting& meeting) { return text_of(meeting.exchange("once", "x")); };
  Process const first(meets({0}, port.number, exchanges_twice)), second(meets({1}, port.number, once));
  EXPECT_EQ(second.said(), ";x;") << "what is said last is heard";
  EXPECT_THAT(first.said(), HasSubstr(") has left the group\n"));
}

TEST(Meeting, WhatOneGivesUpForIsToldToAll) {
  Port port;
  port.free();
  Process const first(meets({0}, port.number, exchanges_twice)),
      second(meets({1}, port.number, [](Meeting&meeting) {
        (void)meeting.exchange("once");
        Diagnostic why;
        why.code = "E0582";
        why.message = "rank 1 waits for rank 0";
        meeting.give_up(why);
        return text_of(meeting.exchange("twice"));
      }));
  EXPECT_EQ(first.said(), "error E0582: rank 1 waits for rank 0");
  EXPECT_EQ(second.said(), "error E0582: rank 1 waits for rank 0");
}

}  // namespace
}  // namespace tessera
