// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/pitfalls.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/child.hpp"
#include "measure/gpu/methods/device.hpp"

namespace tessera::probe {
namespace {

constexpr double k_most_seconds = 4;          // of a case; its own deadlines are far shorter
constexpr double k_most_seconds_to_end = 20;  // of a process that was killed
constexpr double k_most_recovery = 30;

std::vector<Pitfall> const& all() {
  static std::vector<Pitfall> const pitfalls = [] {
    auto list = inside_an_sm();
    for (auto& one : between_blocks()) list.push_back(std::move(one));
    // What cannot end by itself goes last.
    std::stable_partition(list.begin(), list.end(), [](Pitfall const& one) { return one.bounded; });
    return list;
  }();
  return pitfalls;
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

/// Until a trivial kernel ran in a fresh process; negative: it never did.
double recovery_seconds() {
  auto const begin = std::chrono::steady_clock::now();
  auto const passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  while (passed() < k_most_recovery) {
    if (run_again({"--pitfall", "health"}, k_most_recovery, k_most_seconds_to_end).exit_status == 0)
      return passed();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return -1;
}

Verdict verdict_of(Pitfall const& pitfall, ChildRun const& child) {
  Verdict verdict{"pitfall." + pitfall.name, pitfall.what, "hung", ""};
  if (!child.killed) {
    auto const line = child.output.find('\n');
    if (child.exit_status == 0 && line != std::string::npos) {
      verdict.answer = child.output.substr(0, line);
      verdict.note = child.output.substr(line + 1, child.output.find('\n', line + 1) - line - 1);
    } else {
      verdict.answer = "refused";
      verdict.note =
          "the process ended with status " + std::to_string(child.exit_status) + ": " + child.output;
    }
    return verdict;
  }
  verdict.note = "its process was killed after " + seconds(child.seconds);
  if (!child.gone) verdict.note += " and was still there " + seconds(k_most_seconds_to_end) + " later";
  double const recovered = recovery_seconds();
  verdict.note += recovered < 0 ? "; the GPU runs no kernel since"
                                : "; " + seconds(recovered) +
                                      " later a kernel had run in a fresh process, its start included";
  return verdict;
}

}  // namespace

void measure_pitfalls(Context const& context, Probe& probe) {
  if (context.quick) return;
  for (auto const& pitfall : all()) {
    auto const child = run_again({"--pitfall", pitfall.name}, k_most_seconds, k_most_seconds_to_end);
    probe.verdicts.push_back(verdict_of(pitfall, child));
    if (probe.verdicts.back().note.find("runs no kernel") != std::string::npos) return;
  }
}

int run_pitfall(std::string const& name) {
  try {
    if (name == "health") {
      DeviceBuffer<unsigned> word(1, 1);
      return word.download().front() == 0x01010101u ? 0 : 1;
    }
    for (auto const& pitfall : all())
      if (pitfall.name == name) {
        auto const outcome = pitfall.run();
        std::printf("%s\n%s\n", outcome.answer.c_str(), outcome.note.c_str());
        return 0;
      }
    std::fprintf(stderr, "no pitfall \"%s\"\n", name.c_str());
    return 2;
  } catch (std::exception const& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

}  // namespace tessera::probe
