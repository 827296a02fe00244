// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "overlap/gemm_node.hpp"
#include "overlap/limits.hpp"

namespace tessera {
namespace {

using namespace overlap;

tl::unexpected<Diagnostics> refused(char const* code, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return refuse(std::move(d));
}

/// By peer and tile: where at GPU 0 that arrives which stands for what GPU 0 sends to the peer. All GPUs do
/// the same, turned: what GPU 0 sends to GPU p, GPU -p sends to GPU 0.
std::vector<std::vector<std::int64_t>> mirror(std::vector<OutputConfiguration> const& outputs) {
  auto const gpus = outputs.size();
  auto const tiles = outputs[0].order.size();
  std::vector<std::vector<std::int64_t>> map(gpus, std::vector<std::int64_t>(tiles));
  for (std::size_t peer = 0; peer < gpus; ++peer)
    for (std::size_t i = 0; i < tiles; ++i)
      map[peer][static_cast<std::size_t>(outputs[0].order[i])] = outputs[(gpus - peer) % gpus].order[i];
  return map;
}

/// What goes over links: the GEMM's output, A's panels, or nothing.
struct Exchange {
  std::vector<OutputConfiguration> outputs;
  std::vector<OutputConfiguration> panels;  ///< of A; empty: A is there
  bool cached_output = false;

  int gpus() const { return static_cast<int>(outputs.size()); }
  bool routed() const { return gpus() > 1 && (!panels.empty() || !cached_output); }
  std::vector<OutputConfiguration> const& sent() const { return panels.empty() ? outputs : panels; }
};

/// Else it needs a link to every other GPU.
bool has_one_peer(OutputConfiguration const& configuration) {
  std::vector<int> peers;
  for (auto const& map : configuration.remote) peers.push_back(map.peer);
  for (auto const& map : configuration.dma) peers.push_back(map.peer);
  return std::all_of(peers.begin(), peers.end(), [&](int peer) { return peer == peers.front(); });
}

RecordingNames names(GemmProblem const& problem, GemmKernel const& kernel, Exchange const& exchange,
                     Arbitration arbitration) {
  auto const* const mechanism = !exchange.panels.empty()                          ? "all_gather_gemm"
                                : !exchange.routed()                              ? "GEMM alone"
                                : arbitration == Arbitration::round_robin         ? "T3"
                                : arbitration == Arbitration::communication_aware ? "T3-MCA"
                                                                                  : "T3, compute first";
  auto const tiles = tile_grid(problem, kernel);
  auto grid = std::vector{tiles.columns, tiles.rows};
  if (kernel.splits > 1) grid.insert(grid.begin(), kernel.splits);
  return {fmt::format("GEMM of {} x {} x {}", problem.m, problem.n, problem.k),
          mechanism,
          {"gemm", 0, 0, tiles.tiles() * kernel.splits, 1, grid}};
}

OverlapRun mean(std::vector<OverlapRun> const& runs) {
  auto all = runs.front();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    all.end = std::max(all.end, runs[i].end);
    all.gemm_end = std::max(all.gemm_end, runs[i].gemm_end);
    all.events += runs[i].events;
    all.tracker_peak = std::max(all.tracker_peak, runs[i].tracker_peak);
    all.tracker_overflows += runs[i].tracker_overflows;
    for (std::size_t t = 0; t < k_traffics; ++t) all.bytes[t] += runs[i].bytes[t];
  }
  for (auto& bytes : all.bytes) bytes /= static_cast<double>(runs.size());
  return all;
}

Expected<OverlapRun> run(MachineProfile const& machine, GemmProblem const& problem, GemmKernel const& kernel,
                         Exchange const& exchange, OverlapOptions const& options) {
  if (!machine.overlap)
    return refused("E0541",
                   fmt::format("machine \"{}\" says nothing of links and memory channels", machine.name),
                   "use one with an \"overlap\" section (t3, h200), or add it to the profile");
  int const gpus = exchange.gpus();
  if (auto const sizes = check_sizes(problem, kernel, gpus); !sizes)
    return tl::make_unexpected(sizes.error());
  if (auto const fits = check_kernel(machine, kernel); !fits) return tl::make_unexpected(fits.error());
  if (auto const good = check_outputs(problem, kernel, exchange.outputs); !good)
    return tl::make_unexpected(good.error());
  if (auto const good = check_panels(problem, kernel, exchange.panels); !good)
    return tl::make_unexpected(good.error());
  auto const& sent = exchange.sent();
  bool const routed = exchange.routed();
  bool const mirrored = !options.explicit_gpus || !routed;
  bool const ring = has_one_peer(sent[0]);
  if (options.record) {
    std::int64_t count = 0;
    auto const slab =
        static_cast<double>(kernel.tile_m) * static_cast<double>(problem.k * overlap::k_element);
    for (std::size_t n = 0; n < (mirrored ? 1 : exchange.outputs.size()); ++n) {
      count += recorded(exchange.outputs[n], kernel.wavefronts * kernel.splits);
      if (!exchange.panels.empty())
        count += 2 * recorded(exchange.panels[n], static_cast<int>(pieces_of_panel(machine, slab)));
    }
    if (auto const room = check_recording(count); !room) return tl::make_unexpected(room.error());
  }
  System system(machine, ring ? Topology::ring : Topology::fully_connected, std::max(2, gpus), mirrored);
  system.lose(options.lose_update);
  auto const map = mirrored && routed ? mirror(sent) : std::vector<std::vector<std::int64_t>>{};
  auto const run_options = with_series(options);
  GemmSetup const setup{machine, problem, kernel, run_options, exchange.cached_output};
  auto const* arrives_at = mirrored && routed ? &map : nullptr;
  std::vector<GemmNode*> nodes;
  for (int node = 0; node < (mirrored ? 1 : gpus); ++node) {
    auto const n = static_cast<std::size_t>(node);
    auto made = std::make_unique<GemmNode>(setup, system, node, exchange.outputs[n], arrives_at);
    if (!exchange.panels.empty()) made->gather(exchange.panels[n], arrives_at);
    nodes.push_back(made.get());
    system.add(std::move(made));
  }
  std::vector<Recorder> recorders;
  if (options.record) {
    recorders.reserve(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n)
      nodes[n]->record(recorders.emplace_back(machine, static_cast<int>(n), machine.sms,
                                              static_cast<std::size_t>(machine.sms * kernel.groups_per_sm)));
  }
  system.run();
  std::vector<OverlapRun> runs;
  for (auto const* node : nodes) {
    if (auto const missing = node->unfinished(); !missing.empty())
      return refused("E0542", "the simulated GPUs are stuck: " + missing,
                     "an update was lost, or the configurations do not fit each other");
    runs.push_back(node->result());
  }
  auto all = mean(runs);
  all.events += system.events();
  all.link_bytes = system.link_bytes();
  auto const cycles = static_cast<double>(all.end) * machine.overlap->dram_clock_ghz / 1000;
  if (cycles > 0)
    all.dram_busy = static_cast<double>(all.events - system.events()) / cycles /
                    (options.all_channels ? machine.overlap->channels : 1) /
                    static_cast<double>(nodes.size());
  if (options.record) {
    all.timeline = timeline_of(std::move(recorders), runs, all, machine,
                               names(problem, kernel, exchange, options.arbitration), run_options.series_ps);
    if (options.series_ps == 0) all.series.clear();
  }
  return all;
}

}  // namespace

Expected<OverlapRun> run_gemm(MachineProfile const& machine, GemmProblem const& problem,
                              GemmKernel const& kernel, std::vector<OutputConfiguration> const& outputs,
                              bool cached_output, OverlapOptions const& options) {
  return run(machine, problem, kernel, {outputs, {}, cached_output}, options);
}

Expected<OverlapRun> run_gathered_gemm(MachineProfile const& machine, GemmProblem const& problem,
                                       GemmKernel const& kernel, std::vector<GatheredInput> const& inputs,
                                       OverlapOptions const& options) {
  Exchange exchange;
  exchange.cached_output = true;
  for (auto const& input : inputs) {
    exchange.outputs.push_back(input.tiles);
    exchange.panels.push_back(input.panels);
  }
  return run(machine, problem, kernel, exchange, options);
}

}  // namespace tessera
