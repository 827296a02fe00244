// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <tessera/measure/statistics.hpp>
#include <tessera/report/json_text.hpp>

#include "arguments.hpp"
#include "kernels/cudnn/convolution.hpp"
#include "kernels/networks/conv_network.hpp"
#include "src/bench/record.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::command {
namespace {

using namespace networks;

constexpr int k_per_graph = 4, k_rounds = 25;

/// Numbers as a normalized image has them.
std::vector<std::uint16_t> random_images(Network const& network, int images) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<std::uint16_t> result(static_cast<std::size_t>(images * network.image.elements()));
  for (auto& one : result) one = bits_of(normal(random), network.type);
  return result;
}

Expected<NetworkWeights> weights_of(NetworkRun const& run) {
  if (run.weights.empty()) return random_weights(run.network, run.seed);
  auto const files = WeightFiles::open(run.weights);
  if (!files) return tl::make_unexpected(files.error());
  return read_weights(run.network, *files);
}

std::string size_text(ImageSize const& size) {
  return fmt::format("{}x{}x{}", size.height, size.width, size.channels);
}

/// Microseconds of one run: back to back in a graph, the median of some.
Expected<double> time_of(ConvNetwork& network, cudaStream_t stream) {
  // Once by itself: what is loaded at a first launch may not be captured.
  Expected<void> ended = network.run(stream);
  if (!ended) return tl::make_unexpected(ended.error());
  gpu::ok(cudaStreamSynchronize(stream));
  bench::Timer timer(stream, 1, k_per_graph);
  bench::Timed timed{[&](cudaStream_t on, int) {
    ended = network.run(on);
    return ended ? cudaSuccess : cudaErrorLaunchFailure;
  }};
  if (timer.capture(timed)) {
    timer.hot_rounds({&timed}, 3);
    timed.hot.clear();
    timer.hot_rounds({&timed}, k_rounds);
    timer.release(timed);
  }
  if (!ended) return tl::make_unexpected(ended.error());
  if (auto stalled = network.finish(); !stalled) return tl::make_unexpected(stalled.error());
  gpu::ok(timer.error());
  return median(timed.hot);
}

/// A line for each layer: what it makes of what, who computes it, and how long that takes by itself.
void print_layers(Network const& network, std::vector<StepTime> const& times) {
  auto const sizes = sizes_of(network);
  std::printf("%-22s %-14s %-46s %9s  %s\n", "layer", "result", "", "us alone", "by");
  for (auto const& time : times)
    for (auto n = time.step.first; n < time.step.end; ++n) {
      auto const& layer = network.layers[n];
      bool const first = n == time.step.first;
      auto us = fmt::format("{:.2f}", time.us);
      if (time.step.end - time.step.first > 1)
        us = time.layers_us.empty() ? "" : fmt::format("{:.2f}", time.layers_us[n - time.step.first]);
      auto by = time.by;
      if (time.step.end - time.step.first > 1)
        by = first ? fmt::format("{} of {} layers, {:.2f} us", by, time.step.end - time.step.first, time.us)
                   : "  the same";
      std::printf("%-22s %-14s %-46s %9s  %s\n", layer.name.c_str(), size_text(sizes[n + 1]).c_str(),
                  to_string(layer).c_str(), us.c_str(), by.c_str());
    }
}

/// Every layer of the first and the last image; says which are wrong.
Expected<bool> check(ConvNetwork const& on_gpu, NetworkRun const& run, NetworkWeights const& weights,
                     int images) {
  auto const errors = layer_errors(on_gpu, run.network, weights, images);
  if (!errors) return tl::make_unexpected(errors.error());
  double const allowed = allowed_error(run.network.type);
  double largest = 0;
  int wrong = 0;
  for (auto const& one : *errors) {
    largest = std::max(largest, one.error);
    if (one.error <= allowed) continue;
    ++wrong;
    std::printf("WRONG: %s is off by %.1e in the mean square, allowed are %.1e\n",
                run.network.layers[one.layer].name.c_str(), one.error, allowed);
  }
  if (wrong == 0)
    std::printf(
        "checked: all %zu layers against plain arithmetic on what they read, off by at most %.1e "
        "(allowed %.1e)\n",
        errors->size(), largest, allowed);
  return wrong == 0;
}

void write_about(JsonWriter& json, NetworkRun const& run) {
  cudaDeviceProp device{};
  gpu::ok(cudaGetDeviceProperties(&device, 0));
  int driver = 0;
  gpu::ok(cudaDriverGetVersion(&driver));
  auto const now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%MZ", std::gmtime(&now));
  json.key("about").begin_object().member("commit", run.commit).member("date", date);
  json.member("gpu", device.name).member("cuda_driver", driver).member("cudnn", cudnn::version());
  json.member("command", run.command).end_object();
  json.member("network", run.network.name).member("image", size_text(run.network.image));
  json.member("dtype", convolution::name_of(run.network.type));
  json.member("weights", run.weights.empty() ? fmt::format("random, seed {}", run.seed) : run.weights);
}

void write_run(JsonWriter& json, Network const& network, int images, double us, ConvNetwork const& on_gpu,
               std::vector<StepTime> const& times) {
  json.begin_object().member("images", images).member("us", bench::with_decimals(us, 2));
  json.member("us_per_image", bench::with_decimals(us / images, 2))
      .member("steps", to_string(on_gpu.steps()));
  json.key("layers").begin_array();
  for (auto const& time : times) {
    json.begin_object().member("first", network.layers[time.step.first].name);
    json.member("layers", static_cast<int>(time.step.end - time.step.first)).member("by", time.by);
    json.member("us_alone", bench::with_decimals(time.us, 2)).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

Expected<bool> run_network(NetworkRun const& run) {
  auto const weights = weights_of(run);
  if (!weights) return tl::make_unexpected(weights.error());
  gpu::Stream const stream;
  JsonWriter json;
  json.begin_object();
  write_about(json, run);
  json.key("runs").begin_array();
  bool right = true;
  for (int const images : run.images) {
    auto const& network = run.network;
    std::printf("%s, %d image%s of %s, %s, %s weights, %s\n", network.name.c_str(), images,
                images == 1 ? "" : "s", size_text(network.image).c_str(),
                convolution::name_of(network.type).c_str(),
                run.weights.empty() ? "random" : run.weights.c_str(), cudnn::version().c_str());
    std::fflush(stdout);
    NetworkOptions options;
    options.tune = run.tune;
    auto on_gpu = ConvNetwork::make(network, *weights, images, options, stream.get());
    if (!on_gpu) return tl::make_unexpected(on_gpu.error());
    auto const bits = random_images(network, images);
    gpu::ok(cudaMemcpy(on_gpu->input(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
    for (auto const& line : on_gpu->decisions()) std::printf("tuned: %s\n", line.c_str());
    auto const us = time_of(*on_gpu, stream.get());
    if (!us) return tl::make_unexpected(us.error());
    std::printf("%.2f us, %.2f us an image, %.1f TFLOP/s: %s\n", *us, *us / images,
                flops_of(network) * images / *us / 1e6, to_string(on_gpu->steps()).c_str());
    // Stamps have a price: a network of its own has them.
    options.keep_times = true;
    auto stamped = on_gpu->again(*weights, on_gpu->steps(), options, stream.get());
    if (!stamped) return tl::make_unexpected(stamped.error());
    gpu::ok(cudaMemcpy(stamped->input(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
    if (auto ok = stamped->run(stream.get()); !ok) return tl::make_unexpected(ok.error());
    auto const times = stamped->step_times(stream.get());
    if (!times) return tl::make_unexpected(times.error());
    print_layers(network, *times);
    if (run.check) {
      auto const fine = check(*on_gpu, run, *weights, images);
      if (!fine) return tl::make_unexpected(fine.error());
      right = right && *fine;
    }
    write_run(json, network, images, *us, *on_gpu, *times);
    std::fflush(stdout);
  }
  json.end_array().end_object();
  if (!run.output.empty()) {
    if (!bench::write_file(run.output, json.text() + '\n')) {
      Diagnostic one;
      one.code = "E0902", one.where.file = run.output;
      one.message = "cannot be written", one.suggestion = "name another file";
      return refuse(std::move(one));
    }
    std::printf("wrote %s\n", run.output.c_str());
  }
  return right;
}

}  // namespace tessera::command
