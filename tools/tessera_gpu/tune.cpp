// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "arguments.hpp"
#include "kernels/mlp/cache_file.hpp"
#include "kernels/mlp/measure/tune.hpp"
#include "kernels/mlp/tune_key.hpp"

namespace tessera::command {
namespace {

void print_header(Arguments const& arguments, TuneKey const& key, double bandwidth) {
  std::printf("%s, %s %s, %d x %d, on %s (driver %s; %s); weights read at %.2f TB/s\n",
              arguments.name.c_str(), key.form.c_str(), key.type.c_str(), arguments.shape.model,
              arguments.shape.hidden, key.gpu.c_str(), key.driver.c_str(), key.library.c_str(),
              bandwidth * 1e-12);
  std::printf("%6s %8s | %8s %8s | %8s %8s | %6s | %s\n", "tokens", "floor us", "cuBLASLt", "(cool)",
              "chosen", "(cool)", "tried", "");
  std::fflush(stdout);
}

void print_size(mlp::TunedShape const& tuned, double floor) {
  auto const& size = tuned.size;
  std::printf("%6lld %8.1f | %8.1f %8.1f | %8.1f %8.1f | %6d | %s\n", static_cast<long long>(size.tokens),
              floor, size.baseline_hot_us, size.baseline_cool_us, size.hot_us, size.cool_us, tuned.tried,
              shown(size.candidate).c_str());
  for (auto const& one : tuned.finalists)
    std::printf("       %8s | %8s %8s | %8.1f %8.1f | %6.0e | %s%s\n", "", "", "", one.measurement.hot_us,
                one.measurement.cool_us, one.relative_error, shown(one.measurement.candidate).c_str(),
                one.measurement.right ? "" : " WRONG");
  std::printf("       %8s | %s\n", "", tuned.reason.c_str());
  std::fflush(stdout);
}

}  // namespace

int tune(Arguments const& arguments) {
  mlp::Shape most = arguments.shape;
  most.tokens = arguments.tokens.back();
  auto const file = arguments.cache.empty() ? mlp::default_cache_file() : arguments.cache;
  auto const key = mlp::tune_key(most);
  if (!key) return fail(key.error());
  // Refused now rather than after minutes of measuring.
  if (auto const old = mlp::read_cache(file); !old) return fail(old.error());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  auto const arena = mlp::Arena::make(most, stream);
  if (!arena) return fail(arena.error());
  auto const bandwidth = (*arena)->read_bandwidth();
  if (!bandwidth) return fail(bandwidth.error());
  print_header(arguments, *key, *bandwidth);
  TuneCache found;
  found.entries.push_back({*key, {}});
  for (int const tokens : arguments.tokens) {
    mlp::Shape shape = most;
    shape.tokens = tokens;
    mlp::TuneOptions options;
    options.quick = arguments.quick;
    options.load = arguments.load;
    options.progress = [&](std::string const& name, std::optional<double> us) {
      show_progress(name, us, arguments.verbose);
    };
    auto tuned = mlp::tune(**arena, shape, options);
    show_progress("", {}, arguments.verbose);
    if (!tuned) return fail(tuned.error());
    tuned->size.date = today();
    print_size(*tuned, mlp::floor_us(shape, mlp::peak_flops, *bandwidth));
    found.entries.front().sizes.push_back(tuned->size);
    // After each size: what was measured is not lost if something stops the rest.
    if (auto const kept = mlp::add_to_cache(file, found); !kept) return fail(kept.error());
  }
  std::fprintf(stderr, "kept in %s\n", file.c_str());
  return ok;
}

}  // namespace tessera::command
