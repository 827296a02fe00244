// SPDX-License-Identifier: Apache-2.0
#include "soak/neighbour.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <thread>

#include "run_gpu/held_sms.hpp"

namespace tessera::soak {
namespace {

enum Status { k_right = 0, k_failed = 1 };

[[noreturn]] void be_a_neighbour(pid_t parent) {
  try {
    while (getppid() == parent) {
      gpu::HeldSms const held(4, 1e-3);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  } catch (std::exception const& error) {
    fmt::print(stderr, "the neighbour: {}\n", error.what());
    std::_Exit(k_failed);
  }
  std::_Exit(k_right);
}

std::string text_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("the neighbour was ended by signal {}", WTERMSIG(status));
  return fmt::format("the neighbour ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Neighbour::Neighbour() {
  auto const parent = getpid();
  child_ = fork();
  if (child_ == 0) be_a_neighbour(parent);
}

Neighbour::~Neighbour() { (void)end(); }

std::string Neighbour::gone() {
  int status = 0;
  if (child_ <= 0) return "there is no neighbour";
  if (waitpid(child_, &status, WNOHANG) != child_) return {};
  child_ = -1;
  return text_of(status);
}

std::string Neighbour::end() {
  if (child_ <= 0) return {};
  if (auto const said = gone(); !said.empty()) return said;
  kill(child_, SIGTERM);
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? "" : text_of(status);
}

}  // namespace tessera::soak
