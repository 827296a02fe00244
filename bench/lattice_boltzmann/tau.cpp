// SPDX-License-Identifier: Apache-2.0
// bench_lattice_boltzmann_tau <out.json> <about.json> tau: time for a cell's update (tau) over how many cells
// a block computes for each exchange with its neighbours (iota), of cells that stay on the chip, for each way
// to exchange; and the law tau = tau_l + lambda_s / iota fitted to each.
#include <cstdio>
#include <deque>
#include <string>
#include <tessera/measure/statistics.hpp>
#include <tessera/measure/tau.hpp>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/lattice_boltzmann/boxes.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "src/bench/timer.hpp"

namespace {

using namespace tessera;
using namespace tessera::lattice_boltzmann;
using bench::check;

/// 4 x 3 x 11 blocks, one on each of 132 SMs, cubes of so many cells along an edge.
constexpr int k_cut[3] = {4, 3, 11};
constexpr int k_edges[] = {4, 6, 8, 10, 12, 14};
/// Steps of a launch: two, so that what a launch costs beside its steps can be told apart.
constexpr long long k_steps[] = {200, 800};
constexpr int k_rounds = 5;
constexpr Variant k_ways[] = {Variant::chip_tokens,  Variant::chip_semaphores,  Variant::chip_split_barrier,
                              Variant::chip_barrier, Variant::chip_cooperative, Variant::chip_clusters};
constexpr int k_pair = 2;  ///< blocks along x that are a cluster, of that way

struct Row {
  Variant variant = Variant::chip_tokens;
  int edge = 0;
  long long steps = 0;
  bench::Timed timed;
};

int run(char** arguments) {
  auto const profile = profile_here();
  if (!profile) return 1;
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  bench::Timer timer(stream, 1, 1);
  std::deque<LatticeBoltzmann> flows;
  std::deque<Row> rows;
  std::vector<bench::Timed*> running;
  for (auto const variant : k_ways)
    for (int const edge : k_edges) {
      auto const problem = measured_flow({k_cut[0] * edge, k_cut[1] * edge, k_cut[2] * edge});
      Options options;
      options.variant = variant;
      options.machine = *profile;
      options.cut = ChipCut{{problem.width, problem.height, problem.depth}, {k_cut[0], k_cut[1], k_cut[2]}};
      if (variant == Variant::chip_clusters) options.cut->cluster[0] = k_pair;
      auto made = LatticeBoltzmann::make(problem, options);
      if (!made) {
        std::printf("  %s\n", to_text(made.error()).c_str());
        return 1;
      }
      auto* const flow = &flows.emplace_back(std::move(*made));
      for (long long const steps : k_steps) {
        auto& row = rows.emplace_back(Row{variant, edge, steps, {}});
        row.timed.work = [flow, steps](cudaStream_t on, int) {
          return fine(flow->run(on, steps)) ? cudaSuccess : cudaErrorLaunchFailure;
        };
        if (!timer.capture(row.timed)) return 1;
        running.push_back(&row.timed);
      }
    }
  timer.hot_rounds(running, k_rounds);
  check(timer.error(), "measuring");
  for (auto& flow : flows)
    if (!fine(flow.finish())) return 1;

  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2]));
  json.member("unit",
              "a block computes `cells` for each exchange; us: of a launch of `steps` steps, medians; fit: "
              "T = T0 + steps (cells tau_l + lambda_s), tau_l in ns for a cell of a block, lambda_s in ns");
  json.member("samples", k_rounds).key("ways").begin_array();
  for (auto const variant : k_ways) {
    std::vector<TauSample> samples;
    json.begin_object().member("way", to_string(variant)).key("rows").begin_array();
    double before = 0;
    std::printf("%-20s ns a cell of a block:", to_string(variant).c_str());
    for (auto& row : rows) {
      if (row.variant != variant) continue;
      double const us = median(row.timed.hot), cells = row.edge * row.edge * row.edge;
      samples.push_back({static_cast<double>(row.steps), cells, 1, 1e3 * us});
      json.begin_object().member("cells", cells).member("steps", row.steps);
      json.member("us", bench::with_digits(us, 5)).end_object();
      if (row.steps == k_steps[1])
        std::printf(" %d: %.2f", row.edge,
                    1e3 * (us - before) / static_cast<double>(k_steps[1] - k_steps[0]) / cells);
      before = us;
    }
    auto const fit = fit_tau(samples);
    json.end_array().member("tau_l_ns", bench::with_digits(fit.work_ns, 4));
    json.member("lambda_s_ns", bench::with_digits(fit.sync_ns, 4));
    json.member("tau_l_error_ns", bench::with_digits(fit.work_error, 2));
    json.member("lambda_s_error_ns", bench::with_digits(fit.sync_error, 2));
    json.member("start_us", bench::with_digits(fit.start_ns / 1e3, 3));
    json.member("overlap", bench::with_digits(fit.overlap, 3));
    json.member("rms_residual", bench::with_digits(fit.rms_residual, 2));
    json.member("worst_residual", bench::with_digits(fit.worst_residual, 2)).end_object();
    std::printf(
        "\n   tau_l %.3f ns, lambda_s %.0f ns (+- %.0f), start %.1f us, p %.2f, off by %.1f %% (worst "
        "%.1f)\n",
        fit.work_ns, fit.sync_ns, fit.sync_error, fit.start_ns / 1e3, fit.overlap, 100 * fit.rms_residual,
        100 * fit.worst_residual);
  }
  json.end_array().end_object();
  for (auto& row : rows) timer.release(row.timed);
  return bench::write_file(arguments[1], json.text() + '\n') ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || std::string(arguments[3]) != "tau") {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> tau\n", arguments[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  return run(arguments);
}
