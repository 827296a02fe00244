// SPDX-License-Identifier: Apache-2.0
// Descriptors that processes hand each other.
#include "tessera/ranks/descriptors.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "processes.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A file in memory that holds the rank's letter.
int file_of(int rank) {
  int const file = memfd_create("test", MFD_CLOEXEC);
  char const letter = static_cast<char>('a' + rank);
  return pwrite(file, &letter, 1, 0) == 1 ? file : -1;
}

std::string hands_over(std::shared_ptr<Meeting> const& meeting, int times) {
  auto made = Descriptors::make(meeting);
  if (!made) return to_text(made.error());
  if (!(*made)->why_not().empty()) return (*made)->why_not();
  std::string letters;
  for (int time = 0; time < times; ++time) {
    int const mine = file_of(meeting->rank());
    auto const all = (*made)->pass(mine);
    close(mine);
    if (!all) return to_text(all.error());
    for (int const one : *all) {
      char letter = '-';
      if (one >= 0 && pread(one, &letter, 1, 0) != 1) letter = '?';
      if (one >= 0) close(one);
      letters += letter;
    }
  }
  return letters;
}

std::function<std::string()> rank(int number, int size, int port, int times) {
  return [=] {
    auto const met = join({number, size}, port);
    return met ? hands_over(*met, times) : to_text(met.error());
  };
}

TEST(Descriptors, OfEachRankComeToAllOthers) {
  Port port;
  port.free();
  Process const first(rank(0, 3, port.number, 2)), second(rank(1, 3, port.number, 2)),
      third(rank(2, 3, port.number, 2));
  EXPECT_EQ(first.said(), "-bc-bc");
  EXPECT_EQ(second.said(), "a-ca-c");
  EXPECT_EQ(third.said(), "ab-ab-");
}

TEST(Descriptors, OfARankThatHasEndedAreMissed) {
  Port port;
  port.free();
  Process const first(rank(0, 2, port.number, 2)), second([&] {
    auto const met = join({1, 2}, port.number);
    (void)hands_over(*met, 1);
    _exit(1);
    return std::string();
  });
  auto const said = first.said();
  EXPECT_THAT(said, StartsWith("error E0586: rank 1 (process "));
  EXPECT_THAT(said, HasSubstr("see what that process says, and start all ranks anew"));
}

TEST(Descriptors, AreNotPassedWhereOneRankDoesNotHandOver) {
  Port port;
  port.free();
  Process const first(rank(0, 2, port.number, 1)), second([&] {
    auto const met = join({1, 2}, port.number);
    // Another call in its place.
    return text_of((*met)->exchange("something else"));
  });
  EXPECT_THAT(first.said(), HasSubstr(" make different calls"));
  EXPECT_THAT(second.said(), HasSubstr(" make different calls"));
}

}  // namespace
}  // namespace tessera
