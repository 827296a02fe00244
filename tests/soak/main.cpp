// SPDX-License-Identifier: Apache-2.0
// Random chains, at once, with faults, for a given time: tests/soak/README.md.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "files/whole_files.hpp"
#include "soak/hold_sms.hpp"
#include "soak/run_case.hpp"

namespace {

using namespace tessera::soak;
using Clock = std::chrono::steady_clock;

struct Arguments {
  double seconds = 300;
  std::uint64_t seed = 0;  ///< 0: from the clock
  std::string state;       ///< a file to go on from
  bool neighbour = true;
  bool one = false;  ///< a single case
  Case only;
};

struct State {
  std::uint64_t seed = 0, cases = 0, launches = 0, faults = 0, said = 0, refused_plans = 0;
};

[[noreturn]] void usage() {
  fmt::print(stderr,
             "soak [--seconds 300] [--seed N] [--state FILE] [--no-neighbour]\n"
             "soak --case N [--chains N] [--launches N] [--graphs 0|1] [--fault NAME] [--held N]\n"
             "              [--workload NAME]\n");
  std::exit(2);
}

Arguments read(int count, char** texts) {
  Arguments a;
  for (int i = 1; i < count; ++i) {
    std::string const name = texts[i];
    auto const value = [&] { return i + 1 < count ? std::string(texts[++i]) : (usage(), std::string()); };
    if (name == "--seconds")
      a.seconds = std::stod(value());
    else if (name == "--seed")
      a.seed = std::stoull(value());
    else if (name == "--state")
      a.state = value();
    else if (name == "--no-neighbour")
      a.neighbour = false;
    else if (name == "--case")
      a.one = true, a.only = case_of(std::stoull(value()));
    else if (name == "--chains")
      a.only.chains = std::stoi(value());
    else if (name == "--launches")
      a.only.launches = std::stoi(value());
    else if (name == "--graphs")
      a.only.graphs = value() == "1";
    else if (name == "--held")
      a.only.held_sms = std::stoi(value());
    else if (name == "--fault") {
      auto const wanted = value();
      for (auto const fault :
           {Fault::none, Fault::held_sms, Fault::late_tile, Fault::exception, Fault::bad_enqueue})
        if (wanted == to_text(fault)) a.only.fault = fault;
    } else if (name == "--workload") {
      auto const wanted = value();
      for (auto const workload : {Workload::none, Workload::mlp, Workload::sum, Workload::loop,
                                  Workload::loop_by_words, Workload::loop_in_pairs})
        if (wanted == to_text(workload)) a.only.workload = workload;
    } else
      usage();
  }
  return a;
}

/// Another process that uses the GPU: kernels of half a millisecond on a few SMs, until its parent is gone.
pid_t start_neighbour() {
  auto const parent = getpid();
  auto const child = fork();
  if (child != 0) return child;
  cudaStream_t stream = nullptr;
  if (prepare_to_hold() != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) std::_Exit(1);
  while (getppid() == parent) {
    if (hold_sms(4, 1, stream) != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess) std::_Exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  std::_Exit(0);
}

State read_state(Arguments const& a) {
  State s;
  std::ifstream file(a.state);
  if (!a.state.empty() && (file >> s.seed >> s.cases >> s.launches >> s.faults >> s.said >> s.refused_plans))
    return s;
  s = State{};
  s.seed = a.seed != 0 ? a.seed : std::random_device{}();
  return s;
}
void write_state(Arguments const& a, State const& s) {
  if (a.state.empty()) return;
  // A run that is ended meanwhile goes on from the state before.
  auto const text =
      fmt::format("{} {} {} {} {} {}\n", s.seed, s.cases, s.launches, s.faults, s.said, s.refused_plans);
  if (auto written = tessera::files::write_whole({{a.state, text}}); !written)
    fmt::print(stderr, "{}\n", tessera::to_text(written.error()));
}

/// Ends the process where a case does not end: a hang is a failure, and its case is known.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    done_ = true;
    thread_.join();
  }
  void begin(Case const& one) {
    text_ = arguments_of(one);
    since_ = Clock::now().time_since_epoch().count();
  }
  void end() { since_ = 0; }

 private:
  void watch() {
    while (!done_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      auto const since = since_.load();
      Clock::duration const limit = std::chrono::seconds(60);
      if (since == 0 || Clock::now().time_since_epoch().count() - since < limit.count()) continue;
      fmt::print("HANG: soak {}\n", text_);
      std::fflush(stdout);
      std::_Exit(1);
    }
  }
  std::string text_;
  std::atomic<Clock::rep> since_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

Outcome watched(Watchdog& watchdog, Case const& one) {
  watchdog.begin(one);
  auto outcome = run_case(one);
  watchdog.end();
  return outcome;
}

/// The smallest of the smaller cases that fails too, in three tries each.
Case shrunk(Watchdog& watchdog, Case const& failed) {
  for (auto const& smaller : smaller_than(failed))
    for (int i = 0; i < 3; ++i)
      if (!watched(watchdog, smaller).failure.empty()) return smaller;
  return failed;
}

}  // namespace

int main(int count, char** texts) {
  auto const a = read(count, texts);
  auto const neighbour = a.neighbour && !a.one ? start_neighbour() : 0;
  if (auto const error = prepare_to_hold(); error != cudaSuccess) {
    fmt::print("no GPU: {}\n", cudaGetErrorString(static_cast<cudaError_t>(error)));
    return 3;
  }
  Watchdog watchdog;
  if (a.one) {
    auto const outcome = watched(watchdog, a.only);
    fmt::print("{} launches, {} refused plans, {} faults, {} said\n{}\n", outcome.launches,
               outcome.refused_plans, outcome.faults, outcome.said,
               outcome.failure.empty() ? "right" : outcome.failure);
    return outcome.failure.empty() ? 0 : 1;
  }
  auto state = read_state(a);
  auto const begin = Clock::now();
  int status = 0;
  while (std::chrono::duration<double>(Clock::now() - begin).count() < a.seconds) {
    auto const one = case_of(state.seed + state.cases);
    auto const outcome = watched(watchdog, one);
    if (!outcome.failure.empty()) {
      fmt::print("FAILED: soak {}\n{}\n", arguments_of(one), outcome.failure);
      fmt::print("smaller: soak {}\n", arguments_of(shrunk(watchdog, one)));
      status = 1;
      break;
    }
    ++state.cases;
    state.launches += outcome.launches, state.faults += outcome.faults, state.said += outcome.said;
    state.refused_plans += outcome.refused_plans;
    write_state(a, state);
  }
  fmt::print(
      "{{\"seed\": {}, \"cases\": {}, \"launches\": {}, \"faults\": {}, \"said\": {}, \"refused_plans\": {}, "
      "\"failures\": {}, \"seconds\": {:.1f}}}\n",
      state.seed, state.cases, state.launches, state.faults, state.said, state.refused_plans, status,
      std::chrono::duration<double>(Clock::now() - begin).count());
  if (neighbour > 0) {
    kill(neighbour, SIGTERM);
    waitpid(neighbour, nullptr, 0);
  }
  return status;
}
