// SPDX-License-Identifier: Apache-2.0
// tessera-bench: a workload's tuned plans beside cuBLASLt and CUTLASS. `tessera bench mlp` runs it.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>

#include "bench/tessera_bench/record.hpp"
#include "files/partial_files.hpp"
#include "files/whole_files.hpp"
#include "kernels/bindings/families.hpp"
#include "src/bench/matrices.hpp"
#include "tessera/tune/cache_file.hpp"
#include "tessera/tune/floor.hpp"
#include "tessera/tune/key.hpp"
#include "tools/tessera_gpu/arguments.hpp"
#include "tools/tessera_gpu/entry.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;

/// The fastest row of a group, hot; infinite if it has none.
double best_of(SizeResult const& size, std::string const& group) {
  double best = INFINITY;
  for (auto const& row : size.rows)
    if (row.group == group && row.result.measurement.right)
      best = std::min(best, row.result.measurement.hot_us);
  return best;
}

struct Means {
  double hot = 0, cool = 0;
  int count = 0;
  void add(double h, double c) {
    hot += std::log(h);
    cool += std::log(c);
    ++count;
  }
  void print(char const* which) const {
    if (count > 0)
      std::printf("geometric mean of peer / Tessera at %s rows: %.3f hot, %.3f cool\n", which,
                  std::exp(hot / count), std::exp(cool / count));
  }
};

Expected<void> run_sizes(command::Arguments const& arguments) {
  auto const here = command::machine_here();
  if (!here) return tl::make_unexpected(here.error());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  auto const bindings = shipped_bindings();
  Run record{arguments.name, read_bandwidth(stream), command::peak_flops, {}};
  Means few, many;
  for (auto const& path : arguments.files) {
    auto const graph = command::read_operators(path);
    if (!graph) return tl::make_unexpected(graph.error());
    auto const key = tune_key(*graph, bindings);
    if (!key) return tl::make_unexpected(key.error());
    if (record.sizes.empty()) {
      std::printf("%s: %s, on %s (driver %s); memory read at %.2f TB/s; us, hot\n", arguments.name.c_str(),
                  key->workload.structure.c_str(), key->gpu.c_str(), key->driver.c_str(),
                  record.read_bandwidth * 1e-12);
      std::printf("%6s %8s | %8s %8s %8s %8s | %8s x floor | peer/Tessera hot cool | %s\n", "rows", "floor",
                  "cuBLASLt", "CUTLASS", "+PDL", "Stream-K", "Tessera", "chosen");
      std::fflush(stdout);
    }
    TuneOptions options;
    options.quick = arguments.quick;
    options.load = arguments.load;
    options.progress = [&](std::string const& name, std::optional<double> us) {
      command::show_progress(name, us, arguments.verbose);
    };
    double const floor = floor_us(*graph, command::peak_flops, record.read_bandwidth);
    auto size = bench_size(*graph, *here, floor, stream, options);
    command::show_progress("", {}, arguments.verbose);
    if (!size) return tl::make_unexpected(size.error());
    double const ours = size->chosen(&Measurement::hot_us);
    double const hot = size->best_peer(&Measurement::hot_us) / ours;
    double const cool = size->best_peer(&Measurement::cool_us) / size->chosen(&Measurement::cool_us);
    (graph->operators.front().m <= 128 ? few : many).add(hot, cool);
    std::printf("%6s %8.1f | %8.1f %8.1f %8.1f %8.1f | %8.1f %7.2f | %14.3f %6.3f | %s\n",
                command::size_text(*graph).c_str(), floor, best_of(*size, "cuBLASLt"),
                best_of(*size, "CUTLASS"), best_of(*size, "CUTLASS + PDL"),
                best_of(*size, "CUTLASS Stream-K"), ours, ours / floor, hot, cool,
                command::shown(size->tuned.winner().candidate.name).c_str());
    std::fflush(stdout);
    if (!arguments.cache.empty())
      if (auto const kept = add_to_cache(
              arguments.cache, {{command::entry_of(*key, graph->name, size->tuned, arguments.load)}});
          !kept)
        return kept;
    record.sizes.push_back(std::move(*size));
    // After each size: what was measured is not lost if something stops the rest.
    if (!arguments.output.empty())
      if (auto const written = files::write_whole({{arguments.output, to_json(record)}}); !written)
        return written;
  }
  few.print("up to 128");
  many.print("more than 128");
  return {};
}

}  // namespace

int main(int count, char** words) {
  tessera::files::remove_partial_files_on_signals();
  try {
    auto const arguments = command::read_arguments({words + 1, words + count}, {"bench"});
    if (!arguments) return command::fail(arguments.error());
    if (auto const fine = command::needs_hopper(); !fine) return command::fail(fine.error());
    auto const done = run_sizes(*arguments);
    return done ? command::ok : command::fail(done.error());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-bench: %s\n", error.what());
    return 4;
  }
}
