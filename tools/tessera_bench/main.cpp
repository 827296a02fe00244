// SPDX-License-Identifier: Apache-2.0
// tessera-bench: an MLP's tuned kernels beside cuBLASLt and CUTLASS. `tessera bench mlp` runs it.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>

#include "bench/tessera_bench/record.hpp"
#include "kernels/mlp/cache_file.hpp"
#include "kernels/mlp/tune_key.hpp"
#include "tools/tessera_gpu/arguments.hpp"

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
      std::printf("geometric mean of peer / Tessera at %s tokens: %.3f hot, %.3f cool\n", which,
                  std::exp(hot / count), std::exp(cool / count));
  }
};

int run(command::Arguments const& arguments) {
  mlp::Shape most = arguments.shape;
  most.tokens = arguments.tokens.back();
  auto const key = mlp::tune_key(most);
  if (!key) return command::fail(key.error());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  auto const arena = mlp::Arena::make(most, stream);
  if (!arena) return command::fail(arena.error());
  auto const bandwidth = (*arena)->read_bandwidth();
  if (!bandwidth) return command::fail(bandwidth.error());
  Run record{arguments.name, *bandwidth, mlp::peak_flops, {}};
  std::printf("%s, %s %s, %d x %d, on %s (driver %s); weights read at %.2f TB/s; us, hot\n",
              arguments.name.c_str(), key->form.c_str(), key->type.c_str(), most.model, most.hidden,
              key->gpu.c_str(), key->driver.c_str(), *bandwidth * 1e-12);
  std::printf("%6s %8s | %8s %8s %8s %8s | %8s x floor | peer/Tessera hot cool | %s\n", "tokens", "floor",
              "cuBLASLt", "CUTLASS", "+PDL", "Stream-K", "Tessera", "chosen");
  std::fflush(stdout);
  Means few, many;
  for (int const tokens : arguments.tokens) {
    mlp::Shape shape = most;
    shape.tokens = tokens;
    mlp::TuneOptions options;
    options.quick = arguments.quick;
    options.load = arguments.load;
    options.progress = [&](std::string const& name, std::optional<double> us) {
      command::show_progress(name, us, arguments.verbose);
    };
    auto size = bench_size(**arena, shape, options);
    command::show_progress("", {}, arguments.verbose);
    if (!size) return command::fail(size.error());
    double const floor = mlp::floor_us(shape, mlp::peak_flops, *bandwidth);
    double const ours = size->chosen(&Measurement::hot_us);
    double const hot = size->best_peer(&Measurement::hot_us) / ours;
    double const cool = size->best_peer(&Measurement::cool_us) / size->chosen(&Measurement::cool_us);
    (tokens <= 128 ? few : many).add(hot, cool);
    std::printf("%6d %8.1f | %8.1f %8.1f %8.1f %8.1f | %8.1f %7.2f | %14.3f %6.3f | %s\n", tokens, floor,
                best_of(*size, "cuBLASLt"), best_of(*size, "CUTLASS"), best_of(*size, "CUTLASS + PDL"),
                best_of(*size, "CUTLASS Stream-K"), ours, ours / floor, hot, cool,
                command::shown(size->tuned.size.candidate).c_str());
    std::fflush(stdout);
    if (!arguments.cache.empty()) {
      size->tuned.size.date = command::today();
      if (auto const kept = mlp::add_to_cache(arguments.cache, {{{*key, {size->tuned.size}}}}); !kept)
        return command::fail(kept.error());
    }
    record.sizes.push_back(std::move(*size));
    // After each size: what was measured is not lost if something stops the rest.
    if (!arguments.output.empty()) {
      std::ofstream file(arguments.output);
      file << to_json(record);
      if (!file.flush()) {
        std::fprintf(stderr, "cannot write %s\n", arguments.output.c_str());
        return command::environment;
      }
    }
  }
  few.print("up to 128");
  many.print("more than 128");
  return command::ok;
}

}  // namespace

int main(int count, char** words) {
  try {
    auto const arguments = command::read_arguments({words + 1, words + count});
    if (!arguments) return command::fail(arguments.error());
    if (auto const fine = command::needs_hopper(); !fine) return command::fail(fine.error());
    return run(*arguments);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-bench: %s\n", error.what());
    return 4;
  }
}
