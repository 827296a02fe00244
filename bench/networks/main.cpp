// SPDX-License-Identifier: Apache-2.0
// bench_networks <out.json> <about.json> <network> <seconds> <images>...: a network in which some layers are
// chains, beside the same network by cuDNN alone, each layer by the fastest plan, in one run and in an order
// drawn at random. `seconds`: for building plans of cuDNN, of layers that are alike. Sets of weights and
// activations take turns, so that both come from memory.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "kernels/cudnn/convolution.hpp"
#include "kernels/networks/conv_network.hpp"
#include "kernels/networks/network_time.hpp"

namespace {

using namespace tessera;
using namespace tessera::networks;
using bench::check;

constexpr int k_rounds = 30, k_cool_rounds = 8;
constexpr double k_rest = 4;        // as long as the work
constexpr double k_flops = 790e12;  // dense fp16 under power, as measured
constexpr double k_bandwidth = 4.16e12;
constexpr double k_rotated = 120e6;  // bytes of all sets: more than the L2 holds
constexpr int k_most_sets = 6;

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  double error = 0;  ///< against cuDNN's result, in the mean square
};

template <class T>
T taken(Expected<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", to_text(result.error()).c_str());
  std::exit(1);
}

std::vector<std::uint16_t> random_images(Network const& network, int images) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<std::uint16_t> result(static_cast<std::size_t>(images * network.image.elements()));
  for (auto& one : result) one = bits_of(normal(random), network.type);
  return result;
}

double bytes_of(NetworkWeights const& weights) {
  double bytes = 0;
  for (auto const& layer : weights.layers)
    bytes += 2.0 * static_cast<double>(layer.filter.size() + layer.bias.size());
  return bytes;
}

/// Of the last image's results.
double difference(Network const& network, ConvNetwork const& a, ConvNetwork const& b, int images) {
  int const last = static_cast<int>(network.layers.size());
  auto const one = taken(a.activation(last, images - 1)), other = taken(b.activation(last, images - 1));
  double off = 0, all = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    double const x = static_cast<double>(value_of(one[i], network.type));
    double const y = static_cast<double>(value_of(other[i], network.type));
    off += (x - y) * (x - y), all += y * y;
  }
  return std::sqrt(off / all);
}

/// A network in sets of its own memory.
class Sets {
 public:
  Sets(ConvNetwork const& tuned, NetworkWeights const& weights, std::vector<Step> const& steps, int count,
       std::vector<std::uint16_t> const& images, bool early, cudaStream_t stream) {
    NetworkOptions options;
    options.starts_early = early;
    for (int set = 0; set < count; ++set) {
      auto& one = all_.emplace_back(taken(tuned.again(weights, steps, options, stream)));
      check(cudaMemcpy(one.input(), images.data(), 2 * images.size(), cudaMemcpyHostToDevice), "images");
    }
  }
  std::function<cudaError_t(cudaStream_t, int)> work() {
    return [this](cudaStream_t stream, int set) {
      auto const done = all_[static_cast<std::size_t>(set) % all_.size()].run(stream);
      if (!done) std::printf("  %s\n", to_text(done.error()).c_str());
      return done ? cudaSuccess : cudaErrorLaunchFailure;
    };
  }
  ConvNetwork& first() { return all_.front(); }
  void finish() {
    for (auto& one : all_)
      if (auto const ended = one.finish(); !ended) {
        std::fprintf(stderr, "%s\n", to_text(ended.error()).c_str());
        std::exit(1);
      }
  }

 private:
  std::vector<ConvNetwork> all_;
};

void measure(Network const& network, NetworkWeights const& weights, int images, double seconds,
             cudaStream_t stream, JsonWriter& json) {
  NetworkOptions options;
  options.tune = true, options.tune_seconds = seconds;
  auto const begin = std::chrono::steady_clock::now();
  auto const tuned = taken(ConvNetwork::make(network, weights, images, options, stream));
  std::chrono::duration<double> const made_in = std::chrono::steady_clock::now() - begin;
  auto const numbers = random_images(network, images);
  double activations = 0;
  for (auto const& size : sizes_of(network))
    activations += 2.0 * images * static_cast<double>(size.elements());
  double const bytes = bytes_of(weights);
  int const count =
      std::clamp(static_cast<int>(std::ceil(k_rotated / (bytes + activations))), 2, k_most_sets);
  auto const plain = steps_with(network, {});
  auto const longest =
      cheapest_steps(network, possible_chains(network, images), [](Step const&) { return 1.0; });

  bench::Timer timer(stream, count, count);
  std::deque<Sets> sets;
  std::deque<Row> rows;
  auto const add = [&](char const* name, std::vector<Step> const& steps, bool early = true) {
    auto& made = sets.emplace_back(tuned, weights, steps, count, numbers, early, stream);
    rows.push_back({{}, name, to_string(steps), {made.work()}});
  };
  add("cudnn", plain);
  if (tuned.steps() != plain) add("chosen", tuned.steps());
  auto const launches = steps_with(network, possible_launches(network, images));
  if (tuned.steps() != launches) add("launches", launches);
  // The same launches, each behind the end of the one before.
  add("stream order", launches, false);
  // What is taken without tuning; its layers by cuDNN have the tuned plans here.
  if (auto const usual = usual_steps(network, images);
      usual != tuned.steps() && usual != plain && usual != launches)
    add("usual", usual);
  if (tuned.steps() != longest) add("longest chains", longest);
  std::vector<bench::Timed*> running;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check(rows[i].timed.work(stream, 0), rows[i].name.c_str());
    check(cudaStreamSynchronize(stream), rows[i].name.c_str());
    sets[i].finish();
    if (i > 0) rows[i].error = difference(network, sets[i].first(), sets[0].first(), images);
    // Each layer rounds once; what is off grows from layer to layer.
    if (!(rows[i].error <= 1e-2)) {
      std::printf("  WRONG %s: %g from cuDNN's\n", rows[i].name.c_str(), rows[i].error);
      continue;
    }
    timer.capture(rows[i].timed);
  }
  std::vector<Row> timed(std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  for (Row& row : timed)
    if (row.timed.graph != nullptr) running.push_back(&row.timed);
  bench::time_rows(timer, running, timed, k_rounds, k_cool_rounds, k_rest);
  for (auto& one : sets) one.finish();

  double const floor_us = 1e6 * std::max(flops_of(network) * images / k_flops, bytes / k_bandwidth);
  double chosen = timed.front().median;
  for (Row const& row : timed) {
    std::printf("  %-14s %8.2f (%.2f...%.2f) cool %.2f  off %.1e  %s\n", row.name.c_str(), row.median,
                row.low, row.high, row.cool, row.error, row.detail.c_str());
    if (row.name == "chosen") chosen = row.median;
  }
  std::printf("%s, %d images: floor %.2f us, cuDNN %.2f, chosen %.2f (cuDNN / chosen %.3f)\n",
              network.name.c_str(), images, floor_us, timed.front().median, chosen,
              timed.front().median / chosen);
  std::printf("  made and tuned in %.1f s\n", made_in.count());
  for (auto const& line : tuned.decisions()) std::printf("    %s\n", line.c_str());
  std::fflush(stdout);
  json.begin_object().member("images", images).member("sets", count);
  json.member("tune_s", bench::with_digits(made_in.count(), 3));
  json.member("floor_us", bench::with_digits(floor_us, 4)).member("chosen", to_string(tuned.steps()));
  json.member("cudnn_over_chosen", bench::with_digits(timed.front().median / chosen, 4));
  json.key("variants").begin_array();
  bench::write_rows(json, timed);
  json.end_array().key("decisions").begin_array();
  for (auto const& line : tuned.decisions()) json.value(line);
  json.end_array().end_object();
}

}  // namespace

int main(int count, char** arguments) {
  auto const network = count > 5 ? network_named(arguments[3]) : network_named("");
  if (!network) {
    std::fprintf(stderr,
                 "usage: %s <out.json> <about.json> resnet-38|vgg-19|resnet-50 <seconds> <images>...\n",
                 arguments[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2])).member("cudnn", cudnn::version());
  json.member(
      "unit",
      "microseconds for a network, fp16 NHWC; medians; cool: after rests of 4 times the work; weights "
      "and activations rotate through sets; tune_s: seconds to make and tune it");
  json.member("samples", k_rounds).key("sizes").begin_array();
  std::printf("%s\n", cudnn::version().c_str());
  auto const weights = random_weights(*network, 1);
  for (int i = 5; i < count; ++i) {
    measure(*network, weights, std::atoi(arguments[i]), std::atof(arguments[4]), stream, json);
    // After each: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
