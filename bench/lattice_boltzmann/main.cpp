// SPDX-License-Identifier: Apache-2.0
// bench_lattice_boltzmann <out.json>|- <about.json>|- flows [<variant>|all [<width>x<height>x<depth>...]]:
// steps of a lattice Boltzmann flow in boxes of several sizes, by all variants that fit, in one run and in an
// order drawn at random, beside the bandwidth that a copy gets in the same run, and what was predicted.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/lattice_boltzmann/boxes.hpp"
#include "bench/lattice_boltzmann/copy.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/device_buffer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::lattice_boltzmann;
using bench::check;

/// 12^3, 14x14x15 and 2/3 of that on each of 132 SMs; cubes.
constexpr Box k_boxes[] = {{48, 36, 132},   {56, 42, 165},   {64, 64, 64},   {96, 96, 96},
                           {128, 128, 128}, {256, 256, 256}, {512, 512, 512}};
constexpr double k_bytes_per_cell = 152;
constexpr double k_ns_per_sample = 2e6;
constexpr int k_rounds = 12;
constexpr int k_warm_rounds = 3;

struct Row {
  Choice choice;
  bench::Timed timed;
  long long steps = 0;
  double us = 0, low = 0, high = 0;
};

/// 1e9 bytes a second that a copy reads and writes.
double copied_gbps(cudaStream_t stream) {
  std::size_t const bytes = 2ull << 30;
  gpu::DeviceBuffer<char> from(bytes), to(bytes);
  bench::Timer timer(stream, 1, 4);
  auto const us = timer.quick([&](cudaStream_t on, int) { return copy(from.get(), to.get(), bytes, on); }, 5);
  return 2e-3 * static_cast<double>(bytes) / us;
}

/// False if a variant failed that should not: those that do not fit are left out.
bool measure(Box const& box, MachineProfile const& machine, std::string const& only, cudaStream_t stream,
             JsonWriter& json) {
  auto const problem = measured_flow(box);
  double const copied = copied_gbps(stream);
  bench::Timer timer(stream, 1, 1);
  std::deque<LatticeBoltzmann> flows;
  std::vector<Row> rows;
  bool all_fine = true;
  auto const chosen = choose_variant(problem, machine);
  for (auto const variant : k_variants) {
    if (!only.empty() && only != to_string(variant)) continue;
    Options options;
    options.variant = variant;
    options.machine = machine;
    auto made = LatticeBoltzmann::make(problem, options);
    if (!made) {
      std::printf("  %s\n", to_text(made.error()).c_str());
      all_fine = all_fine && made.error().front().code == "E0569";
      continue;
    }
    auto& flow = flows.emplace_back(std::move(*made));
    Row row{flow.choice(), {}};
    auto const steps = static_cast<long long>(k_ns_per_sample / row.choice.ns_per_step);
    // Trips come in pairs, of two steps each.
    row.steps = std::clamp(steps / 4 * 4, 4LL, 2000LL);
    // A launch for each step is a node of the graph.
    if (has_launches(variant)) row.steps = std::min(row.steps, 200LL);
    row.timed.work = [&flow, count = row.steps](cudaStream_t on, int) {
      return fine(flow.run(on, count)) ? cudaSuccess : cudaErrorLaunchFailure;
    };
    rows.push_back(std::move(row));
  }
  std::vector<bench::Timed*> running;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    auto const run = rows[r].timed.work(stream, 0);
    bool const ended = fine(flows[r].finish());
    if (run == cudaSuccess && ended && timer.capture(rows[r].timed))
      running.push_back(&rows[r].timed);
    else
      all_fine = false;
  }
  timer.hot_rounds(running, k_warm_rounds);
  for (auto* const one : running) one->hot.clear();
  timer.hot_rounds(running, k_rounds);
  check(timer.error(), "measuring");
  // Samples of steps that stalled are of nothing.
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (!rows[r].timed.hot.empty() && !fine(flows[r].finish())) rows[r].timed.hot.clear(), all_fine = false;

  json.begin_object().key("box").begin_array();
  json.value(box.width).value(box.height).value(box.depth).end_array();
  json.member("copied_gb_per_s", bench::with_digits(copied, 4));
  double const floor_us = k_bytes_per_cell * static_cast<double>(problem.size()) / copied / 1e3;
  json.member("floor_us", bench::with_digits(floor_us, 4));
  if (chosen) json.member("chosen", to_string(chosen->variant)).member("reason", chosen->reason);
  json.key("variants").begin_array();
  std::printf("%s: a copy gets %.0f GB/s, which is %.3f us a step, %.0f MLUPS; chosen: %s\n",
              to_string(problem).c_str(), copied, floor_us, mlups(problem, floor_us),
              chosen ? to_string(chosen->variant).c_str() : "none");
  for (auto& row : rows) {
    timer.release(row.timed);
    if (row.timed.hot.empty()) continue;
    auto const count = static_cast<double>(row.steps);
    row.low = quantile(row.timed.hot, 0.1) / count, row.us = median(row.timed.hot) / count;
    row.high = quantile(row.timed.hot, 0.9) / count;
    double const predicted = row.choice.ns_per_step / 1e3;
    auto const& cut = row.choice.cut;
    auto const blocks = std::to_string(cut.blocks[0]) + "x" + std::to_string(cut.blocks[1]) + "x" +
                        std::to_string(cut.blocks[2]);
    std::printf(
        "  %-18s %9.3f us a step (%.3f...%.3f)  %8.0f MLUPS  %.2f of the floor  predicted %.3f  %lld steps, "
        "%dx%dx%d\n",
        to_string(row.choice.variant).c_str(), row.us, row.low, row.high, mlups(problem, row.us),
        floor_us / row.us, predicted, row.steps, cut.blocks[0], cut.blocks[1], cut.blocks[2]);
    json.begin_object().member("variant", to_string(row.choice.variant));
    json.member("us", bench::with_digits(row.us, 4)).member("us_p10", bench::with_digits(row.low, 4));
    json.member("us_p90", bench::with_digits(row.high, 4)).member("steps", row.steps);
    json.member("mlups", bench::with_digits(mlups(problem, row.us), 4));
    json.member("floor_over_time", bench::with_digits(floor_us / row.us, 3));
    json.member("predicted_us", bench::with_digits(predicted, 4));
    json.member("blocks", blocks).end_object();
  }
  json.end_array().end_object();
  std::fflush(stdout);
  return all_fine;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || std::string(arguments[3]) != "flows") {
    std::fprintf(
        stderr, "usage: %s <out.json>|- <about.json>|- flows [<variant>|all [<width>x<height>x<depth>...]]\n",
        arguments[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  auto const profile = profile_here();
  if (!profile) return 1;
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  auto const boxes = boxes_of(count, arguments, 5, {std::begin(k_boxes), std::end(k_boxes)});
  if (!boxes) return 2;
  std::string const only = count > 4 && std::string(arguments[4]) != "all" ? arguments[4] : "";
  if (!only.empty() && !variant_named(only)) return 2;
  std::string const output = arguments[1];
  JsonWriter json;
  std::printf("by the profile %s\n", profile->name.c_str());
  json.begin_object().key("about");
  if (std::string(arguments[2]) == "-")
    json.begin_object().member("machine", with_device().value_or(MachineProfile{}).gpu).end_object();
  else
    json.raw(bench::about(arguments[2]));
  json.member("unit",
              "microseconds a step, graphs of many steps, medians; MLUPS: 1e6 cells a second; the floor: 152 "
              "bytes a cell at what a copy of 2 GiB gets in the same run");
  json.member("profile", profile->name).member("samples", k_rounds).key("boxes").begin_array();
  bool all_fine = true;
  for (auto const& box : *boxes) {
    all_fine = measure(box, *profile, only, stream, json) && all_fine;
    auto whole = json;
    if (output != "-" && !bench::write_file(output, whole.end_array().end_object().text() + '\n')) return 1;
  }
  return all_fine ? 0 : 1;
}
