// SPDX-License-Identifier: Apache-2.0
// What the run stage costs, on the chain of vector functions that the tests run: host time of a launch and of
// a replay, GPU time per replay with kernels that are bare, watched, and recording; all interleaved. Then
// what a replay costs the host beside a hundred other chains.
//
//   run_bench [--json FILE] [--commit HASH] [--date DATE] [--driver VERSION]
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "company.hpp"
#include "files/partial_files.hpp"
#include "files/whole_files.hpp"
#include "or_stop.hpp"
#include "run_gpu/vector_chain.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::run_bench;
using vector_chain::Kind;

constexpr int k_rounds = 15;
constexpr int k_replays = 100;
constexpr char const* k_kinds[] = {"watched", "bare", "recording"};

struct Times {
  std::vector<double> launch_us, replay_us, gpu_us;
};
nlohmann::ordered_json summary(std::vector<double> const& v) {
  return {{"median", median(v)},
          {"min", *std::min_element(v.begin(), v.end())},
          {"max", *std::max_element(v.begin(), v.end())}};
}
struct Case {
  std::string mechanism;
  int kind;
  Chain chain;
  ChainGraph graph;
  Times times;
};

}  // namespace

int main(int count, char** arguments) {
  std::string file, commit, date, driver_version;
  std::string command = "run_bench";
  for (int i = 1; i + 1 < count; i += 2) {
    std::string const name = arguments[i];
    (name == "--json"     ? file
     : name == "--commit" ? commit
     : name == "--date"   ? date
                          : driver_version) = arguments[i + 1];
    command += fmt::format(" {} {}", name, arguments[i + 1]);
  }
  auto const pipeline = vector_chain::pipeline(3, 24, 20, 1);
  auto const words = static_cast<std::size_t>(pipeline.stages[0].tiles()) * vector_chain::k_width;
  vector_chain::Buffers buffers;
  std::uint32_t* x = nullptr;
  or_stop(cudaMalloc(reinterpret_cast<void**>(&x), words * 4));
  or_stop(cudaMemset(x, 0x37, words * 4));
  buffers.x = x;
  for (auto& out : buffers.out) or_stop(cudaMalloc(reinterpret_cast<void**>(&out), words * 4));

  cudaStream_t stream{};
  cudaEvent_t begin{}, end{};
  or_stop(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  or_stop(cudaEventCreate(&begin));
  or_stop(cudaEventCreate(&end));
  std::vector<Case> cases;
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused})
    for (int kind = 0; kind < 3; ++kind) {
      auto const plan =
          support::make_plan(pipeline, or_stop(machine("h200")), mechanism, support::Policy::row_sync);
      ChainOptions options;
      options.record = kind == 2;
      options.dispatches_in_launch_order = true;
      auto chain =
          or_stop(Chain::make(plan, vector_chain::kernels(plan, buffers, static_cast<Kind>(kind)), options));
      auto graph = or_stop(chain.capture());
      cases.push_back({to_text(mechanism), kind, std::move(chain), std::move(graph), {}});
    }
  for (int round = -2; round < k_rounds; ++round)
    for (auto& c : cases) {
      double launch = 0;
      for (int i = 0; i < 20; ++i) launch += host_us([&] { or_stop(c.chain.launch(stream)); });
      or_stop(c.chain.finish());
      or_stop(cudaEventRecord(begin, stream));
      double const replay = host_us([&] {
        for (int i = 0; i < k_replays; ++i) or_stop(c.graph.launch(stream));
      });
      or_stop(cudaEventRecord(end, stream));
      or_stop(c.chain.finish());
      or_stop(cudaEventSynchronize(end));
      float gpu_ms = 0;
      or_stop(cudaEventElapsedTime(&gpu_ms, begin, end));
      if (round < 0) continue;
      c.times.launch_us.push_back(launch / 20);
      c.times.replay_us.push_back(replay / k_replays);
      c.times.gpu_us.push_back(1e3 * gpu_ms / k_replays);
    }

  cudaDeviceProp properties{};
  int driver = 0;
  int clock_khz = 0;
  or_stop(cudaGetDeviceProperties(&properties, 0));
  or_stop(cudaDriverGetVersion(&driver));
  or_stop(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  nlohmann::ordered_json out;
  out["schema"] = "tessera.run_bench/1";
  out["commit"] = commit;
  out["date"] = date;
  out["machine"] = properties.name;
  auto const cuda = fmt::format("CUDA {}.{}", driver / 1000, driver % 1000 / 10);
  out["driver"] = driver_version.empty() ? cuda : driver_version + ", " + cuda;
  out["clocks"] = fmt::format("not locked; {} MHz at most", clock_khz / 1000);
  out["command"] = command;
  out["what"] =
      "three stages of 480 tiles (24 x 20), RowSync; medians of 15 rounds, all cases interleaved; hot";
  out["units"] = {
      {"launch_host_us", "host time of one Chain::launch()"},
      {"replay_host_us", "host time of one ChainGraph::launch(), queue not empty"},
      {"gpu_us", "GPU time of one replay, back to back"},
      {"company", "host time of one ChainGraph::launch(), alone and beside other chains, in turns"}};
  fmt::print("{:<14}{:<12}{:>16}{:>16}{:>10}\n", "mechanism", "kernels", "launch host us", "replay host us",
             "GPU us");
  for (auto const& c : cases) {
    fmt::print("{:<14}{:<12}{:>16.2f}{:>16.2f}{:>10.2f}\n", c.mechanism, k_kinds[c.kind],
               median(c.times.launch_us), median(c.times.replay_us), median(c.times.gpu_us));
    out["cases"].push_back({{"mechanism", c.mechanism},
                            {"kernels", k_kinds[c.kind]},
                            {"launch_host_us", summary(c.times.launch_us)},
                            {"replay_host_us", summary(c.times.replay_us)},
                            {"gpu_us", summary(c.times.gpu_us)}});
  }
  fmt::print("\n{:<48}{:>12}{:>20}\n", "plan", "alone us", fmt::format("beside {} us", k_others));
  for (auto const& c : measure_company(3 * k_rounds)) {
    std::vector<double> more;
    for (std::size_t i = 0; i < c.alone_us.size(); ++i) more.push_back(c.beside_us[i] - c.alone_us[i]);
    fmt::print("{:<48}{:>12.3f}{:>20.3f}\n", c.plan, median(c.alone_us), median(c.beside_us));
    out["company"].push_back({{"plan", c.plan},
                              {"other_chains", k_others},
                              {"replay_host_us_alone", summary(c.alone_us)},
                              {"replay_host_us_beside", summary(c.beside_us)},
                              {"difference_us", summary(more)}});
  }
  if (file.empty()) return 0;
  files::remove_partial_files_on_signals();
  auto const written = files::write_whole({{file, out.dump(2) + '\n'}});
  if (!written) fmt::print(stderr, "{}\n", to_text(written.error()));
  return written ? 0 : 1;
}
