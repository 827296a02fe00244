// SPDX-License-Identifier: Apache-2.0
// The watchdog of what may never end. This program is run again as its own child.
#include "measure/gpu/methods/child.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace tessera::probe {
namespace {

TEST(Child, WhatItWritesAndHowItEnds) {
  auto const run = run_again({"--say", "hello"}, 60, 60);
  EXPECT_EQ(run.output, "hello\n");
  EXPECT_EQ(run.exit_status, 3);
  EXPECT_FALSE(run.killed);
}

TEST(Child, WhoTakesTooLongIsKilled) {
  for (auto const* const how : {"--sleep", "--close-and-sleep"}) {
    auto const run = run_again({how}, 0.3, 60);
    EXPECT_TRUE(run.killed);
    EXPECT_TRUE(run.gone);
    EXPECT_EQ(run.exit_status, -1);
    EXPECT_GE(run.seconds, 0.3);
    EXPECT_LT(run.seconds, 600) << "it slept to its end";
  }
}

TEST(Child, WhoCrashesHasNoExitStatus) {
  auto const run = run_again({"--abort"}, 60, 60);
  EXPECT_FALSE(run.killed);
  EXPECT_EQ(run.exit_status, -1);
}

}  // namespace
}  // namespace tessera::probe

int main(int count, char** words) {
  std::string const word = count > 1 ? words[1] : "";
  if (word == "--say") return std::puts(words[2]), std::fflush(stdout), 3;
  if (word == "--close-and-sleep") std::fclose(stdout);
  if (word == "--sleep" || word == "--close-and-sleep")
    std::this_thread::sleep_for(std::chrono::seconds(600));
  if (word == "--abort") std::abort();
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
