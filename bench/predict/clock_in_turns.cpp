// SPDX-License-Identifier: Apache-2.0
// clock_in_turns <out.json> <about.json>: how soon the clock follows what runs. Two GEMMs that settle at
// different clocks alone, one that fills the GPU and one that fills a third of it: in turns of several
// lengths (the clock of each at the end of its turns), one behind the other for long (the clock over time),
// behind a rest, and for seconds, with power and temperature. Which clock kernels share that are measured in
// turns follows from it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tessera/report/json_text.hpp>
#include <thread>
#include <vector>

#include "bench/common/program.hpp"
#include "bench/predict/power_meter.hpp"
#include "bench/predict/stamped.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_sm90;
using bench::check;
using bench::with_decimals;

constexpr char const* kernel_name = "128x256x64_2x1";
constexpr double sample_us = 600;  // as the benchmark of the MLP samples
constexpr double long_ms = 120, trace_ms = 60, rest_ms = 30, after_rest_ms = 20;
constexpr double step_s = 0.25;
constexpr int repeats = 8;

/// A graph of about sample_us with a stamp before and behind it.
struct Work {
  char const* what;
  cudaGraphExec_t graph = nullptr;
  double us = 0;  ///< at the last run
};

class Bench {
 public:
  Bench() : kernel_(find_kernel(kernel_name)) {
    if (kernel_ == nullptr) check(cudaErrorInvalidValue, kernel_name);
    check(prepare(*kernel_), kernel_name);
  }

  Work work(char const* what, int rows, int columns, int depth) {
    Call call;
    auto const* const base = gemms_.operands();
    call.problem = {rows,
                    columns,
                    depth,
                    base,
                    base + 2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(depth),
                    gemms_.output(),
                    Activation::none};
    call.band = 0;
    call.most_blocks = gemms_.sms();
    auto const once_us = 8 + 2.0 * rows * columns * depth / 600e6;
    int const count = std::max(1, static_cast<int>(sample_us / once_us));
    Work result{what, gemms_.capture(*kernel_, count, [&](int) { return call; })};
    run(result);
    return result;
  }

  /// The clock (GHz) while it ran, behind so many more of it.
  double run(Work& work, int before = 0) {
    auto const sample = gemms_.run(work.graph, before + 1);
    work.us = sample.us;
    return sample.ghz;
  }

 private:
  bench::StampedGemms gemms_{std::size_t{1} << 29, std::size_t{1} << 30};
  Kernel const* kernel_ = nullptr;
};

/// For so long; the clock of each sample.
std::vector<std::pair<double, double>> trace(Bench& bench, Work& work, double milliseconds) {
  std::vector<std::pair<double, double>> result;
  auto const begin = std::chrono::steady_clock::now();
  for (double passed = 0; passed < milliseconds;) {
    auto const ghz = bench.run(work);
    passed = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    result.emplace_back(passed, ghz);
  }
  return result;
}

using Traces = std::vector<std::vector<std::pair<double, double>>>;

/// Medians over the repeats, sample by sample.
void write(JsonWriter& json, char const* name, Traces const& traces) {
  auto length = traces.front().size();
  for (auto const& one : traces) length = std::min(length, one.size());
  json.key(name).begin_array();
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<double> at, ghz;
    for (auto const& one : traces) {
      at.push_back(one[i].first);
      ghz.push_back(one[i].second);
    }
    json.begin_object().member("ms", with_decimals(median(at), 2));
    json.member("ghz", with_decimals(median(ghz), 3)).end_object();
    if (i < 4 || i % 8 == 0) std::printf("%s %7.2f ms %.3f GHz\n", name, median(at), median(ghz));
  }
  json.end_array();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json>\n", arguments[0]);
    return 2;
  }
  Bench bench;
  auto full = bench.work("eight waves", 2048, 16896, 3072);
  auto third = bench.work("a third of a wave", 256, 5120, 10240);
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2]));
  json.member("unit", "GHz, medians").member("kernel", kernel_name).key("turns").begin_array();
  struct Turns {
    double full_ms, third_ms;
  };
  for (Turns const& turn : {Turns{1.2, 1.2}, Turns{5.6, 5.6}, Turns{12, 12}, Turns{24, 24}, Turns{48, 48},
                            Turns{96, 96}, Turns{3.6, 1.2}, Turns{10.8, 1.2}}) {
    std::vector<double> ghz[2];
    int const rounds = std::max(4, static_cast<int>(long_ms / turn.third_ms));
    for (int round = 0; round < 2 * rounds; ++round)
      for (auto* const work : {&full, &third}) {
        auto const us = 1000 * (work == &third ? turn.third_ms : turn.full_ms);
        auto const clock = bench.run(*work, std::max(1, static_cast<int>(us / work->us)) - 1);
        if (round >= rounds / 2) ghz[work == &third].push_back(clock);
      }
    json.begin_object().member("full_ms", turn.full_ms).member("third_ms", turn.third_ms);
    json.member("full_ghz", with_decimals(median(ghz[0]), 3));
    json.member("third_ghz", with_decimals(median(ghz[1]), 3)).end_object();
    std::printf("turns of %5.1f and %5.1f ms: %.3f and %.3f GHz\n", turn.full_ms, turn.third_ms,
                median(ghz[0]), median(ghz[1]));
  }
  json.end_array();
  Traces heavy, light, rested;
  for (int i = 0; i < repeats; ++i) {
    heavy.push_back(trace(bench, full, trace_ms));
    light.push_back(trace(bench, third, trace_ms));
  }
  for (int i = 0; i < repeats; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(rest_ms));
    rested.push_back(trace(bench, full, after_rest_ms));
  }
  write(json, "full behind a third", heavy);
  write(json, "a third behind full", light);
  write(json, "full behind a rest", rested);
  // For seconds: the chip warms up, and draws more for the same work.
  bench::PowerMeter const meter;
  struct Phase {
    char const* what;
    Work* work;
    double seconds;
  };
  json.key("for seconds").begin_array();
  auto const begin = std::chrono::steady_clock::now();
  auto const seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (Phase const& phase :
       {Phase{"rest", nullptr, 1}, Phase{"a third of a wave", &third, 1.5}, Phase{"eight waves", &full, 6},
        Phase{"a third of a wave", &third, 1.5}, Phase{"eight waves", &full, 1}, Phase{"rest", nullptr, 1}})
    for (double const end = seconds() + phase.seconds; seconds() < end;) {
      std::vector<double> ghz;
      for (double const step = seconds() + step_s; seconds() < step;)
        if (phase.work != nullptr)
          ghz.push_back(bench.run(*phase.work, 8));
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
      double const clock = ghz.empty() ? 0 : median(ghz), watts = meter.watts(), celsius = meter.celsius();
      json.begin_object().member("what", phase.what).member("s", with_decimals(seconds(), 2));
      json.member("ghz", with_decimals(clock, 3)).member("watts", with_decimals(watts, 0));
      json.member("celsius", celsius).end_object();
      std::printf("%s %6.2f s %.3f GHz %4.0f W %3.0f C\n", phase.what, seconds(), clock, watts, celsius);
    }
  return bench::write_file(arguments[1], json.end_array().end_object().text() + '\n') ? 0 : 1;
}
