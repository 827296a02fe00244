// SPDX-License-Identifier: Apache-2.0
// What a long search says on a terminal, and when it is interrupted there.
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include "cli/alone.hpp"

namespace tessera {
namespace {

struct OnATerminal : AloneInAFolder {
  /// What stands on the terminal by the time that `text` does, or at the end.
  std::string shown_until(std::string const& text) {
    char piece[256];
    while (text.empty() || shown.find(text) == std::string::npos) {
      auto const count = ::read(terminal, piece, sizeof piece);
      if (count <= 0) break;  // an error where the other end is closed
      shown.append(piece, static_cast<std::size_t>(count));
    }
    return shown;
  }
  pid_t begin(std::string const& command) {
    pid_t const process = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (process == 0) {
      ::signal(SIGINT, SIG_DFL);
      alarm(600);  // ends a hang
      execl("/bin/sh", "sh", "-c", ("cd " + folder.path() + " && exec ./tessera " + command).c_str(),
            nullptr);
      _exit(127);
    }
    return process;
  }
  ~OnATerminal() override {
    if (terminal >= 0) close(terminal);
  }

  int terminal = -1;
  std::string shown;
};

TEST_F(OnATerminal, ASearchOfSchedulesSaysHowFarItIsAndWhereItWasInterrupted) {
  ASSERT_EQ(says("plan two-gemms --mechanism wait_kernel -o plan.json").exit, 0);
  auto const tool = begin("simulate plan.json --explore 10000000");
  ASSERT_THAT(shown_until("none stuck"), testing::ContainsRegex("[0-9]+ of at most 10000000 states seen"));
  kill(tool, SIGINT);
  EXPECT_THAT(shown_until(""),
              testing::ContainsRegex("interrupted: no conclusion; [0-9]+ of at most 10000000 states "
                                     "seen, none stuck"));
  int status = 0;
  waitpid(tool, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

}  // namespace
}  // namespace tessera
