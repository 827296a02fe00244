// SPDX-License-Identifier: Apache-2.0
// bench_convolution <out.json> <about.json> same_size|network [<most cuts>[,<of a layer>]]
// [<edge>x<batch>x<layers>...]: chains of 3x3 convolutions of one size with bias and ReLU, fp16, or the 32 of
// ResNet-38, beside the same layers by cuDNN, one after the other, each by the fastest plan that its
// heuristics offer, and by CUTLASS's kernel for sm_90, in one run and in an order drawn at random. Sets of
// filters and activations take turns, so that filters come from memory. "layers": a launch for each, which
// loads its filters while the one before runs, cut by price and as the fastest of some that are tried;
// "planned", "by time": persistent launches. Both beside the same kernels in stream order: what loads ahead
// and waits from tile to tile are worth. Of 0 cuts none is tried.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "bench/convolution/by_cudnn.hpp"
#include "bench/convolution/cutlass_layer.hpp"
#include "bench/convolution/cuts.hpp"
#include "bench/convolution/operands.hpp"
#include "kernels/convolution/chain_time.hpp"
#include "kernels/convolution/conv_loop.hpp"
#include "tessera/run/device.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench_convolution;
using bench::check;

struct Case {
  int edge, channels, layers;
};
constexpr Case k_cases[] = {{56, 64, 2}, {28, 128, 2}, {14, 256, 2}, {7, 512, 2}, {14, 256, 4}, {7, 512, 4}};
constexpr int k_batches[] = {1, 4, 8, 16, 32};
constexpr int k_rounds = 40, k_cool_rounds = 12;
constexpr double k_rest = 4;        // as long as the work
constexpr double k_flops = 790e12;  // dense fp16 under power, as measured
constexpr double k_bandwidth = 4.16e12;

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  double error = 0;
};

/// Against cuDNN's result, in the type's numbers: both round each layer once.
double difference(Operands const& operands, std::vector<unsigned short> const& reference) {
  std::vector<unsigned short> found(operands.results());
  check(cudaMemcpy(found.data(), operands.result(0), 2 * found.size(), cudaMemcpyDeviceToHost), "reading");
  auto const value = [](unsigned short bits) {
    int const exponent = bits >> 10 & 31, digits = bits & 1023;
    if (exponent == 31) return static_cast<double>(NAN);
    double const size = exponent == 0 ? std::ldexp(digits, -24) : std::ldexp(digits + 1024, exponent - 25);
    return bits >> 15 != 0 ? -size : size;
  };
  double off = 0, all = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const a = value(found[i]), b = value(reference[i]);
    off += (a - b) * (a - b), all += b * b;
  }
  return std::sqrt(off / all);
}

struct Outcome {
  double floor_us = 0, chain_us = 0, cudnn_us = 0;
};

Outcome measure(LayerChain const& of, std::size_t most_cuts, std::size_t most_layer_cuts, cudaStream_t stream,
                JsonWriter& json) {
  Operands const operands(of, stream);
  auto const& chain = operands.chain;
  int const sets = operands.sets.count();
  bench::Timer timer(stream, sets, sets);
  // Few sets are enough to choose by: their filters are hot, in all cuts alike.
  int const few = std::min(sets, 6);
  bench::Timer quick(stream, few, few);
  std::deque<Row> rows;

  ByCudnn const cudnn(operands, quick, stream);
  std::vector<unsigned short> reference(operands.results());
  if (cudnn.can()) {
    auto const work = [&cudnn](cudaStream_t on, int set) { return cudnn.run(on, set); };
    operands.poison();
    check(work(stream, 0), "cuDNN");
    check(cudaStreamSynchronize(stream), "cuDNN");
    check(cudaMemcpy(reference.data(), operands.result(0), 2 * reference.size(), cudaMemcpyDeviceToHost),
          "reading");
    rows.push_back({{}, "cudnn", cudnn.words(), {work}});
  }

#ifdef TESSERA_HAS_CUTLASS
  auto const by_cutlass = [&](cudaStream_t on, int set) {
    auto done = cudaSuccess;
    for (std::size_t l = 0; l < chain.layers.size() && done == cudaSuccess; ++l)
      done = cutlass_layer(cudnn::problem_of(chain, l), operands.layer(l, set), on);
    return done;
  };
  if (by_cutlass(stream, 0) == cudaSuccess) rows.push_back({{}, "cutlass", k_cutlass_tile, {by_cutlass}});
#endif

  auto const machine = with_device();
  if (!machine) std::exit(1);
  auto const places = places_on_device(machine->sms);
  if (!places) std::exit(1);
  std::deque<std::vector<ConvChain>> owned;
  auto const tried = tried_chains(operands, chain_options(chain, *places, most_cuts), few, quick);
  if (!tried.empty()) print_stamps(operands, tried.front().second, few, stream);
  auto const add = [&](std::string name, ConvOptions const& options) {
    auto& all = owned.emplace_back(chains_of(operands, options, sets));
    if (all.empty()) return;
    std::string detail;
    for (auto const& part : all.front().launches())
      detail += (detail.empty() ? "" : "; then ") + to_string(part.cut.stages.front().cut);
    rows.push_back({{}, std::move(name), std::move(detail), {work_of(all)}});
  };
  ConvOptions persistent;
  persistent.by_layer = false;
  add("planned", persistent);
  if (auto const by_time = fastest_options(chain, *places)) add("by time", *by_time);
  if (!tried.empty()) {
    add("chain", tried.front().second);
    auto early = tried.front().second;
    early.starts_early = true;
    add("chain, early", early);
  }

  ConvOptions layers;
  layers.by_layer = true;
  add("layers, planned", layers);
  std::vector<TriedCuts> measured;
  if (most_layer_cuts > 0) {
    layers = tuned_layers(operands, most_layer_cuts, machine->sms, few, quick, stream, measured);
    print_stamps(operands, layers, few, stream);
    add("layers", layers);
    layers.starts_early = true;
    add("layers, early", layers);
  }
  // The same kernels, each behind the end of the one before.
  std::deque<std::vector<std::vector<ConvChain>>> apart;
  if (auto const cut = cut_layers(chain, machine->sms, layers); cut)
    if (auto& all = apart.emplace_back(launches_of(operands, *cut, false, true)); !all.empty())
      rows.push_back({{}, "layers, stream order", "cut as layers", {work_of(all)}});

  // What waits from tile to tile are worth: the planned cuts in stream order.
  if (auto const planned = cut_launches(chain, *places); planned)
    for (bool const early : {false, true}) {
      auto& all = apart.emplace_back(launches_of(operands, *planned, early, false));
      if (!all.empty())
        rows.push_back({{},
                        early ? "launches, early" : "stream order",
                        "one launch for each layer, cut as planned",
                        {work_of(all)}});
    }

  std::vector<bench::Timed*> running;
  for (Row& row : rows) {
    operands.poison();
    check(row.timed.work(stream, 0), row.name.c_str());
    check(cudaStreamSynchronize(stream), row.name.c_str());
    row.error = cudnn.can() ? difference(operands, reference) : 0;
    // Both round each layer once; what is off grows from layer to layer.
    if (!(row.error <= 2e-3 * static_cast<double>(chain.layers.size() + 1))) {
      std::printf("  WRONG %s, %s: %g from cuDNN's\n", row.name.c_str(), row.detail.c_str(), row.error);
      continue;
    }
    if (timer.capture(row.timed)) running.push_back(&row.timed);
  }
  std::vector<Row> timed(std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  running.clear();
  for (Row& row : timed)
    if (row.timed.graph != nullptr) running.push_back(&row.timed);
  bench::time_rows(timer, running, timed, k_rounds, k_cool_rounds, k_rest);

  Outcome outcome;
  double bytes =
      2.0 * static_cast<double>(operands.results() + activation_elements(chain, operands.sizes[0]));
  for (std::size_t l = 0; l < chain.layers.size(); ++l)
    bytes += 2.0 * static_cast<double>(filter_elements(operands.sizes[l], chain.layers[l]));
  outcome.floor_us = 1e6 * std::max(flops_of(chain) / k_flops, bytes / k_bandwidth);
  for (Row const& row : timed) {
    std::printf("  %-20s %7.2f (%.2f...%.2f) cool %.2f  off %.1e  %s\n", row.name.c_str(), row.median,
                row.low, row.high, row.cool, row.error, row.detail.c_str());
    if (row.median <= 0) continue;
    auto& best = row.name == "cudnn" ? outcome.cudnn_us : outcome.chain_us;
    // Sets are chains of their own: nothing overlaps. And chains are what is asked for.
    if (row.name == "cutlass" || row.name == "layers, early" || row.name == "chain, early" ||
        row.name == "stream order" || row.name == "launches, early" || row.name == "layers, stream order")
      continue;
    if (best == 0 || row.median < best) best = row.median;
  }
  std::printf("%s: floor %.2f us, cuDNN %.2f, chain %.2f (cuDNN / chain %.2f)\n", to_string(chain).c_str(),
              outcome.floor_us, outcome.cudnn_us, outcome.chain_us, outcome.cudnn_us / outcome.chain_us);
  std::fflush(stdout);
  json.begin_object().member("edge", chain.width).member("channels", chain.channels);
  json.member("layers", static_cast<int>(chain.layers.size()))
      .member("batch", chain.images)
      .member("sets", sets)
      .member("floor_us", bench::with_digits(outcome.floor_us, 4));
  json.member("cudnn_over_chain", bench::with_digits(outcome.cudnn_us / outcome.chain_us, 4));
  if (!measured.empty()) write_cuts(json, measured);
  json.key("variants").begin_array();
  bench::write_rows(json, timed);
  json.end_array().end_object();
  return outcome;
}

/// The 32 convolutions of a residual network's four stages, with residuals; the first of a stage has
/// stride 2.
LayerChain residual_network(int images) {
  LayerChain result{images, 56, 56, 64, {}};
  int const pairs[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < 2 * pairs[stage]; ++i) {
      Layer layer;
      layer.channels = 64 << stage;
      int const number = static_cast<int>(result.layers.size());
      if (stage > 0 && i == 0) layer.stride = 2;
      // The first pair of a stage would add activations of another size.
      if (i % 2 == 1 && (stage == 0 || i > 1)) layer.residual = number - 1;
      result.layers.push_back(layer);
    }
  return result;
}

std::vector<LayerChain> chains_of_kind(std::string const& kind) {
  std::vector<LayerChain> result;
  if (kind == "network")
    for (int const images : k_batches) result.push_back(residual_network(images));
  else
    for (auto const& one : k_cases)
      for (int const images : k_batches)
        result.push_back(same_size(images, one.edge, one.channels, one.layers));
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  std::string const kind = count > 3 ? arguments[3] : "";
  if (kind != "same_size" && kind != "network") {
    std::fprintf(stderr,
                 "usage: %s <out.json> <about.json> same_size|network [<most cuts>] "
                 "[<edge>x<batch>x<layers>...]\n",
                 arguments[0]);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  auto const most_cuts = static_cast<std::size_t>(count > 4 ? std::atoi(arguments[4]) : 8);
  auto const* const comma = count > 4 ? std::strchr(arguments[4], ',') : nullptr;
  auto const most_layer_cuts = comma != nullptr ? static_cast<std::size_t>(std::atoi(comma + 1)) : most_cuts;
  auto const wanted = [&](LayerChain const& chain) {
    auto const name = std::to_string(chain.width) + "x" + std::to_string(chain.images) + "x" +
                      std::to_string(chain.layers.size());
    return count <= 5 ||
           std::any_of(arguments + 5, arguments + count, [&](char* one) { return name == one; });
  };
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2])).member("cudnn", cudnn::version());
  json.member("unit",
              "microseconds for a chain, fp16 NHWC, bias and ReLU; medians; cool: after rests of 4 times the "
              "work; filters and activations rotate through sets");
  json.member("samples", k_rounds).key("chains").begin_array();
  std::printf("%s\n", cudnn::version().c_str());
  for (auto const& chain : chains_of_kind(kind)) {
    if (!wanted(chain)) continue;
    measure(chain, most_cuts, most_layer_cuts, stream, json);
    // After each: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
