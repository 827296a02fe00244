// SPDX-License-Identifier: Apache-2.0
// gemm_alone <out.json> <about.json> [<kernel>...]: every compiled bf16 GEMM by itself (or those named), over
// shapes that tell its parts from each other: time, the SMs' mean clock and the GPU's power, cool and hot.
// What the simulator's constants are made from (bench/predict/calibrate); no two kernels that depend on each
// other run here, and no size of the MLP benchmark.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
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
using Clock = std::chrono::steady_clock;

constexpr double hot_graph_us = 8000, cool_graph_us = 2000;
// The clock goes on settling (bench/predict/clock_in_turns): cycles say more than hot times here.
constexpr double hot_us = 100e3;
constexpr int cool_rounds = 3;
constexpr double rest = 8;  // times as long as the work, when cool
constexpr std::size_t arena_elements = std::size_t{1} << 30;

struct Case {
  char const* what;
  Kernel const* kernel;
  int rows, columns, depth;
  int band;
  bool persistent;
  bool programmatic;
  Activation activation;
};

struct Result {
  double us = 0, ghz = 0, watts = 0;
  double cycles = 0;  ///< median of the samples' own, for the clock may change from one to the next
};

class Bench {
 public:
  Bench() {
    for (auto const& kernel : kernels()) check(prepare(kernel), kernel.info.name);
  }
  int sms() const { return gemms_.sms(); }

  bool can_run(Case const& one) const { return one.kernel->can_implement(call_of(one, 0)); }

  Result cool(Case const& one) {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));  // for the clock that the last case left
    std::vector<double> us, ghz, cycles;
    auto const [graph, count] = capture(one, cool_graph_us);
    for (int i = 0; i < cool_rounds; ++i) {
      auto const sample = timed(graph, count, 2);
      us.push_back(sample.us);
      ghz.push_back(sample.ghz);
      cycles.push_back(sample.cycles);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(2 * rest * sample.us * count));
    }
    cudaGraphExecDestroy(graph);
    return {median(us), median(ghz), 0, median(cycles)};
  }

  Result hot(Case const& one) {
    std::vector<double> us, ghz, watts, cycles;
    auto const [graph, count] = capture(one, hot_graph_us);
    auto const begin = Clock::now();
    for (double passed = 0; passed < hot_us || us.size() < 5;) {
      auto const sample = timed(graph, count);
      passed = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      if (passed < 0.4 * hot_us) continue;
      us.push_back(sample.us);
      ghz.push_back(sample.ghz);
      cycles.push_back(sample.cycles);
      watts.push_back(meter_.watts());
    }
    cudaGraphExecDestroy(graph);
    return {median(us), median(ghz), median(watts), median(cycles)};
  }

 private:
  Call call_of(Case const& one, int set) const {
    auto const* const base = gemms_.operands();
    auto const a = static_cast<std::size_t>(one.rows) * static_cast<std::size_t>(one.depth);
    auto const b = static_cast<std::size_t>(one.columns) * static_cast<std::size_t>(one.depth);
    // As many different operands as there is room for, eight at most.
    auto const sets = std::clamp<std::size_t>(arena_elements / (a + b), 1, 8);
    auto const first = static_cast<std::size_t>(set) % sets * (a + b);
    Call call;
    call.problem = {one.rows,        one.columns,   one.depth, base + 2 * first, base + 2 * (first + a),
                    gemms_.output(), one.activation};
    call.band = one.band;
    call.most_blocks = one.persistent ? sms() : 0;
    call.stage.triggers_at_start = true;
    if (one.programmatic) gemm_sm90::start_early(call, true);
    return call;
  }

  std::pair<cudaGraphExec_t, int> capture(Case const& one, double wanted_us) {
    auto const flops = 2.0 * one.rows * one.columns * one.depth;
    int const count = static_cast<int>(std::clamp(wanted_us / (4 + flops / 500e6), 4.0, 400.0));
    return {gemms_.capture(*one.kernel, count, [&](int i) { return call_of(one, i); }), count};
  }

  /// One kernel of the last of so many runs.
  Result timed(cudaGraphExec_t graph, int count, int runs = 1) {
    auto const [us, ghz] = gemms_.run(graph, runs);
    return {us / count, ghz, 0, 1000 * us / count * ghz};
  }

  bench::StampedGemms gemms_{arena_elements, arena_elements};
  bench::PowerMeter meter_;
};

std::vector<Case> cases_of(Kernel const& kernel, int sms) {
  auto const& info = kernel.info;
  int const m = info.tile_rows, n = info.tile_columns;
  // Whole clusters: two columns of tiles where the cluster is two wide, two rows where it is two high.
  int const tall = info.cluster_columns > 1 ? 1 : 2;
  int const wide = 2 / tall;
  int const rows = 2 * tall * m, columns = wide * (sms / 4) * n;  // a whole wave
  auto const plain = info.gated ? Activation::swiglu : Activation::none;
  std::vector<Case> cases;
  auto const add = [&](char const* what, int r, int c, int depth, int band, bool persistent,
                       Activation activation) {
    cases.push_back({what, &kernel, r, c, depth, band, persistent, false, activation});
  };
  for (int const depth : {4096, 10240}) add("a wave", rows, columns, depth, 0, false, plain);
  for (bool const persistent : {false, true}) {
    add("two waves", rows, 2 * columns, 3072, 0, persistent, plain);
    add("eight waves", 4 * rows, 2 * columns, 3072, 0, persistent, plain);
  }
  add("eight waves", 4 * rows, 2 * columns, 3072, 1, true, plain);
  if (info.gated) return cases;
  add("a third of a wave", tall * m, 20 * wide * n, 10240, 0, false, plain);
  // The activation is work between two tiles, or behind the last.
  add("two waves", rows, 2 * columns, 3072, 0, true, Activation::gelu);
  add("eight waves", 4 * rows, 2 * columns, 3072, 0, true, Activation::gelu);
  return cases;
}

char const* name_of(Activation activation) {
  return activation == Activation::gelu ? "gelu" : activation == Activation::swiglu ? "swiglu" : "none";
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> [<kernel>...]\n", arguments[0]);
    return 2;
  }
  Bench bench;
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2]));
  json.member("unit", "microseconds for one kernel, medians; GHz; watts").key("rows").begin_array();
  // After each row: what was measured is not lost if something stops the rest.
  auto const keep = [&] {
    auto whole = json;
    return bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n');
  };
  std::vector<std::string> const named(arguments + 3, arguments + count);
  for (auto const& kernel : kernels()) {
    bool const wanted = named.empty()
                            ? kernel.info.type == ElementType::bf16
                            : std::find(named.begin(), named.end(), kernel.info.name) != named.end();
    if (!wanted) continue;
    if (kernel.info.splits > 1) continue;  // whose blocks meet: another cost than these tell apart
    KernelInfo info;
    check(prepare(kernel, &info), info.name);
    std::printf("%s: cluster %dx%d, %d stages, %d threads, %d registers, %d bytes\n", info.name,
                info.cluster_rows, info.cluster_columns, info.stages, info.threads, info.registers,
                info.shared_bytes);
    for (auto const& one : cases_of(kernel, bench.sms())) {
      if (1LL * one.columns * one.depth > 1LL << 29 || !bench.can_run(one)) continue;
      auto const cool = bench.cool(one);
      auto const hot = bench.hot(one);
      json.begin_object().member("kernel", one.kernel->info.name).member("case", one.what);
      json.member("rows", one.rows).member("columns", one.columns).member("depth", one.depth);
      json.member("band", one.band).member("persistent", one.persistent).member("pdl", one.programmatic);
      json.member("activation", name_of(one.activation));
      json.member("cool_us", with_decimals(cool.us, 3)).member("cool_ghz", with_decimals(cool.ghz, 3));
      json.member("cool_cycles", with_decimals(cool.cycles, 0)).member("hot_us", with_decimals(hot.us, 3));
      json.member("hot_ghz", with_decimals(hot.ghz, 3)).member("hot_watts", with_decimals(hot.watts, 0));
      json.member("hot_cycles", with_decimals(hot.cycles, 0)).end_object();
      keep();
      std::printf("%-20s %6d %6d %6d %d%s %8.2f %.3f %8.2f %.3f %4.0f\n", one.what, one.rows, one.columns,
                  one.depth, one.band, one.persistent ? "p" : " ", cool.us, cool.ghz, hot.us, hot.ghz,
                  hot.watts);
    }
  }
  return keep() ? 0 : 1;
}
