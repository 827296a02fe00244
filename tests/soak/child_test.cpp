// SPDX-License-Identifier: Apache-2.0
#include "soak/child.hpp"

#include <gtest/gtest.h>

namespace tessera::soak {
namespace {

int status_of(std::string const& script, double most_seconds = 60) {
  return status_of_child("/bin/sh", {"-c", script}, most_seconds);
}

TEST(SoakChild, SaysHowItEnded) {
  EXPECT_EQ(status_of("exit 0"), 0);
  EXPECT_EQ(status_of("echo unheard; exit 4"), 4);
  EXPECT_EQ(status_of_child("/bin/sh", {"-c", "exit \"$1\"", "sh", "7"}, 60), 7);
}

TEST(SoakChild, IsKilledWhereItTakesLonger) {
  EXPECT_EQ(status_of("exec sleep 100", 0.01), -1);
  EXPECT_EQ(status_of("kill -9 $$"), -1);
  EXPECT_EQ(status_of_child("/nothing/here", {}, 60), -1);
}

}  // namespace
}  // namespace tessera::soak
