// SPDX-License-Identifier: Apache-2.0
// Random chains, loops and workloads, at once, with faults, for a given time: tests/soak/README.md.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "files/whole_files.hpp"
#include "run_gpu/held_sms.hpp"
#include "soak/child.hpp"
#include "soak/neighbour.hpp"
#include "soak/run_case.hpp"

namespace {

using namespace tessera::soak;
using Clock = std::chrono::steady_clock;

enum Status { k_right = 0, k_failed = 1, k_usage = 2, k_no_gpu = 3, k_hang = 4 };

struct Arguments {
  double seconds = 300;
  double shrinks_seconds = 60;  ///< for smaller cases of one that failed
  std::uint64_t seed = 0;       ///< 0: from the clock
  std::string state;            ///< a file to go on from
  std::string only_kind;        ///< of fault, and none but cases with it
  bool neighbour = true;
  bool one = false;  ///< a single case
  Case only;
};

[[noreturn]] void usage() {
  fmt::print(
      stderr,
      "soak [--seconds 300] [--seed N] [--state FILE] [--shrink SECONDS] [--no-neighbour] [--only KIND]\n"
      "soak --case N [--first N] [--chains N] [--loops 0|1] [--launches N] [--graphs 0|1] [--threads N]\n"
      "              [--workload NAME] [--fault NAME] [--faulty N] [--at N] [--times N] [--held N]\n");
  std::exit(k_usage);
}

/// Does any of some thousand cases have such a fault?
bool kind_comes(std::string const& kind) {
  for (std::uint64_t number = 0; number < 3000; ++number)
    if (kind_of(case_of(number)) == kind) return true;
  return false;
}

Arguments read(int count, char** texts) {
  Arguments a;
  for (int i = 1; i < count; ++i) {
    std::string const name = texts[i];
    auto const value = [&] { return i + 1 < count ? std::string(texts[++i]) : (usage(), std::string()); };
    if (name == "--seconds")
      a.seconds = std::atof(value().c_str());
    else if (name == "--shrink")
      a.shrinks_seconds = std::atof(value().c_str());
    else if (name == "--seed")
      a.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (name == "--state")
      a.state = value();
    else if (name == "--only")
      a.only_kind = value();
    else if (name == "--no-neighbour")
      a.neighbour = false;
    else if (set_argument(a.only, name, value()))
      a.one = true;
    else
      usage();
  }
  if (!a.only_kind.empty() && !a.state.empty()) usage();  // a state goes on by the number of cases
  if (!a.only_kind.empty() && !kind_comes(a.only_kind)) {
    fmt::print(stderr, "no case has the fault {}: the last line of a soak names those that there are\n",
               a.only_kind);
    std::exit(k_usage);
  }
  return a;
}

State begin_state(Arguments const& a) {
  std::ifstream file(a.state);
  std::ostringstream text;
  if (!a.state.empty() && file) {
    text << file.rdbuf();
    if (auto const state = read_state(text.str())) return *state;
  }
  return {a.seed != 0 ? a.seed : std::random_device{}(), {}};
}
void write_state(Arguments const& a, State const& s) {
  if (a.state.empty()) return;
  // A run that is ended meanwhile goes on from the state before.
  auto const text = state_text(s.seed, s.counts);
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
    std::lock_guard const lock(mutex_);
    text_ = arguments_of(one);
    since_ = Clock::now();
    runs_ = true;
  }
  void end() {
    std::lock_guard const lock(mutex_);
    runs_ = false;
  }

 private:
  void watch() {
    while (!done_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::lock_guard const lock(mutex_);
      if (!runs_ || Clock::now() - since_ < std::chrono::seconds(60)) continue;
      fmt::print("HANG: soak {}\n", text_);
      std::fflush(stdout);
      std::_Exit(k_hang);
    }
  }
  std::mutex mutex_;
  std::string text_;
  Clock::time_point since_;
  bool runs_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

Outcome watched(Watchdog& watchdog, Case const& one) {
  watchdog.begin(one);
  auto outcome = run_case(one);
  watchdog.end();
  return outcome;
}

/// The smallest of the smaller cases that fails too, in three tries each: in processes of their own, which a
/// sticky error of CUDA in this one does not reach. As far as the time goes.
Case shrunk(Case const& failed, double seconds) {
  auto const begin = Clock::now();
  for (auto const& smaller : smaller_than(failed)) {
    std::istringstream words(arguments_of(smaller));
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    for (int i = 0; i < 3; ++i) {
      double const left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
      if (left <= 0) return failed;
      auto const status = status_of_child("/proc/self/exe", arguments, std::min(left, 20.0));
      // One that was killed because the time is over has not failed.
      if (status < 0 && left < 20) return failed;
      if (status != k_right && status != k_usage && status != k_no_gpu) return smaller;
    }
  }
  return failed;
}

int run_one(Arguments const& a) {
  Watchdog watchdog;
  auto const outcome = watched(watchdog, a.only);
  fmt::print("{}\n{}\n", to_json({a.only.number, outcome.counts}, outcome.failure.empty() ? 0 : 1, 0),
             outcome.failure.empty() ? "right" : outcome.failure);
  return outcome.failure.empty() ? k_right : k_failed;
}

}  // namespace

int main(int count, char** texts) {
  auto const a = read(count, texts);
  std::unique_ptr<Neighbour> neighbour;
  if (a.neighbour && !a.one) neighbour = std::make_unique<Neighbour>();
  // A kernel that is first needed while another spins waits for it to end.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (auto const error = tessera::gpu::HeldSms::load(); error != cudaSuccess) {
    fmt::print("no GPU: {}\n", cudaGetErrorString(error));
    return k_no_gpu;
  }
  if (a.one) return run_one(a);
  auto state = begin_state(a);
  auto const begin = Clock::now();
  auto const seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::string failure;
  {
    Watchdog watchdog;
    std::uint64_t passed_over = 0;
    while (failure.empty() && seconds() < a.seconds) {
      auto const one = case_of(state.seed + state.counts.cases + passed_over);
      if (!a.only_kind.empty() && kind_of(one) != a.only_kind) {
        ++passed_over;
        continue;
      }
      auto const outcome = watched(watchdog, one);
      failure = outcome.failure;
      state.counts.add(outcome.counts);
      if (!failure.empty()) {
        fmt::print("FAILED: soak {}\n{}\n", arguments_of(one), failure);
        std::fflush(stdout);
        fmt::print("smaller: soak {}\n", arguments_of(shrunk(one, a.shrinks_seconds)));
      } else if (neighbour) {
        failure = neighbour->gone();
        if (!failure.empty()) fmt::print("FAILED behind soak {}\n{}\n", arguments_of(one), failure);
      }
      if (failure.empty()) write_state(a, state);
    }
  }
  if (neighbour && failure.empty()) {
    failure = neighbour->end();
    if (!failure.empty()) fmt::print("FAILED: {}\n", failure);
  }
  if (auto const kind = state.counts.never_stalls(); !kind.empty() && failure.empty()) {
    failure = fmt::format("none of the faults {} was ever said", kind);
    fmt::print("FAILED: {}\n", failure);
  }
  fmt::print("{}\n", to_json(state, failure.empty() ? 0 : 1, seconds()));
  return failure.empty() ? k_right : k_failed;
}
