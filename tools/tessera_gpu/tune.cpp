// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <tessera/shipped_kernels.hpp>
#include <tessera/tune/cache_file.hpp>
#include <tessera/tune/floor.hpp>
#include <tessera/tune/key.hpp>
#include <tessera/tune/workbench.hpp>

#include "arguments.hpp"
#include "entry.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/plan_check/layer_tune.hpp"
#include "src/bench/matrices.hpp"

namespace tessera::command {
namespace {

void print_header(std::string const& name, TuneKey const& key, double bandwidth) {
  std::printf("%s: %s, on %s (driver %s; %s); memory read at %.2f TB/s\n", name.c_str(),
              key.workload.structure.c_str(), key.gpu.c_str(), key.driver.c_str(), key.libraries.c_str(),
              bandwidth * 1e-12);
  std::printf("%6s %8s | %8s %8s | %8s %8s | %6s | %s\n", "rows", "floor us", "library", "(cool)", "chosen",
              "(cool)", "tried", "");
  std::fflush(stdout);
}

void print_size(OperatorGraph const& graph, Tuned const& tuned, double floor) {
  auto const &best = tuned.winner().measurement, &base = tuned.finalists[tuned.baseline].measurement;
  std::printf("%6s %8.1f | %8.1f %8.1f | %8.1f %8.1f | %6d | %s\n", size_text(graph).c_str(), floor,
              base.hot_us, base.cool_us, best.hot_us, best.cool_us, tuned.tried,
              shown(best.candidate).c_str());
  for (auto const& one : tuned.finalists)
    std::printf("       %8s | %8s %8s | %8.1f %8.1f | %6.0e | %s%s\n", "", "", "", one.measurement.hot_us,
                one.measurement.cool_us, one.relative_error, shown(one.measurement.candidate).c_str(),
                one.measurement.right ? "" : " WRONG");
  std::printf("       %8s | %s\n", "", tuned.reason.c_str());
  std::fflush(stdout);
}

Expected<Tuned> tune_one(OperatorGraph const& graph, Bindings const& bindings, MachineProfile const& here,
                         double floor, cudaStream_t stream, TuneOptions const& options) {
  if (plan_check::is_layer(graph)) return plan_check::tune_layer(graph, here, floor, stream, options);
  auto const bench = Workbench::make(graph, shipped_kernels(), bindings, stream);
  if (!bench) return tl::make_unexpected(bench.error());
  return tessera::tune(graph, shipped_kernels(), here, bench->subject(floor), stream, options);
}

Expected<void> tune_all(Arguments const& arguments) {
  auto const file = arguments.cache.empty() ? default_cache_file() : arguments.cache;
  auto const bindings = shipped_bindings();
  auto const here = machine_here();
  if (!here) return tl::make_unexpected(here.error());
  // Refused now rather than after minutes of measuring.
  if (auto const old = read_cache(file); !old) return tl::make_unexpected(old.error());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  double const bandwidth = bench::read_bandwidth(stream);
  bool first = true;
  for (auto const& path : arguments.files) {
    auto const graph = read_operators(path);
    if (!graph) return tl::make_unexpected(graph.error());
    auto const key = tune_key(*graph, bindings);
    if (!key) return tl::make_unexpected(key.error());
    if (std::exchange(first, false))
      print_header(arguments.name.empty() ? graph->name : arguments.name, *key, bandwidth);
    TuneOptions options;
    options.quick = arguments.quick;
    options.load = arguments.load;
    options.progress = [&](std::string const& name, std::optional<double> us) {
      show_progress(name, us, arguments.verbose);
    };
    double const floor = floor_us(*graph, peak_flops, bandwidth);
    auto const tuned = tune_one(*graph, bindings, *here, floor, stream, options);
    show_progress("", {}, arguments.verbose);
    if (!tuned) return tl::make_unexpected(tuned.error());
    print_size(*graph, *tuned, floor);
    // After each size: what was measured is not lost if something stops the rest.
    if (auto const kept = add_to_cache(file, {{entry_of(*key, graph->name, *tuned, arguments.load)}}); !kept)
      return kept;
  }
  std::fprintf(stderr, "kept in %s\n", file.c_str());
  return {};
}

}  // namespace

int tune(Arguments const& arguments) {
  auto const done = tune_all(arguments);
  return done ? ok : fail(done.error());
}

}  // namespace tessera::command
