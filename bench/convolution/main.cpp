// SPDX-License-Identifier: Apache-2.0
// bench_convolution <out.json> <about.json> same_size|network [<most cuts>[,<of a layer>]]
// [<edge>x<batch>x<layers>...]: chains of 3x3 convolutions of one size with bias and ReLU, fp16, or the 32 of
// ResNet-38, beside the same layers by cuDNN, one after the other, each by the fastest plan that its
// heuristics offer, in one run and in an order drawn at random. Sets of filters and activations take turns,
// so that filters come from memory. "layers": a launch for each, which loads its filters while the one before
// runs, cut by price and as the fastest of some that are tried; "planned", "by time": persistent launches.
// Both beside the same kernels in stream order: what loads ahead and waits from tile to tile are worth. Of 0
// cuts none is tried.
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
#include "kernels/convolution/chain_time.hpp"
#include "kernels/convolution/conv_chain.hpp"
#include "kernels/convolution/conv_loop.hpp"
#include "kernels/convolution/layer_cut.hpp"
#include "kernels/convolution/layer_time.hpp"
#include "kernels/cudnn/convolution.hpp"
#include "src/bench/operand_sets.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/device_buffer.hpp"
#include "tessera/run/device.hpp"

namespace {

using namespace tessera;
using namespace tessera::convolution;
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
constexpr std::size_t k_rotated = 80u << 20;  // bytes of all sets: more than the L2 holds
constexpr double k_cudnn_seconds = 1;
constexpr int k_cudnn_plans = 20;

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  double error = 0;
};

/// A chain's memory, in sets.
struct Operands {
  LayerChain chain;
  std::vector<ImageSize> sizes;
  bench::OperandSets sets;
  cudaStream_t stream;

  Operands(LayerChain const& of, cudaStream_t on) : chain(of), sizes(sizes_of(of)), stream(on) {
    std::vector<bench::Operand> all;
    std::size_t bytes = 0;
    auto const add = [&](std::string name, long long elements, double deviation, unsigned seed) {
      auto const size = 2 * static_cast<std::size_t>(elements);
      bytes += size;
      all.push_back({std::move(name), size,
                     deviation > 0 ? bench::random_numbers(chain.type, seed, deviation) : bench::Fill{}});
    };
    add("x0", activation_elements(chain, sizes[0]), 1, 1);
    for (std::size_t l = 0; l < chain.layers.size(); ++l) {
      auto const number = std::to_string(l);
      auto const filter = filter_elements(sizes[l], chain.layers[l]);
      double const depth = static_cast<double>(filter) / chain.layers[l].channels;
      add("filter" + number, filter, std::sqrt(2.0 / depth), 10 * static_cast<unsigned>(l) + 100);
      add("bias" + number, chain.layers[l].channels, 0.3, 10 * static_cast<unsigned>(l) + 101);
      add("x" + std::to_string(l + 1), activation_elements(chain, sizes[l + 1]), 0, 0);
    }
    int const count = std::clamp(static_cast<int>((k_rotated + bytes - 1) / bytes), 2, 32);
    check(sets.make(all, count, stream), "memory");
  }

  void const* at(char const* name, std::size_t number, int set) const {
    return sets.at(name + std::to_string(number), set);
  }
  ConvBuffers buffers(int set) const {
    ConvBuffers result{at("x", 0, set), {}};
    for (std::size_t l = 0; l < chain.layers.size(); ++l)
      result.layers.push_back(
          {at("filter", l, set), at("bias", l, set), const_cast<void*>(at("x", l + 1, set))});
    return result;
  }
  cudnn::Buffers layer(std::size_t l, int set) const {
    int const residual = chain.layers[l].residual;
    return {at("x", l, set), at("filter", l, set), at("bias", l, set),
            residual < 0 ? nullptr : at("x", static_cast<std::size_t>(residual), set),
            const_cast<void*>(at("x", l + 1, set))};
  }
  std::size_t results() const { return static_cast<std::size_t>(activation_elements(chain, sizes.back())); }
  void const* result(int set) const { return at("x", chain.layers.size(), set); }
  void poison() const {
    for (int set = 0; set < sets.count(); ++set)
      for (std::size_t l = 1; l < sizes.size(); ++l)
        bench::poison(const_cast<void*>(at("x", l, set)),
                      static_cast<std::size_t>(activation_elements(chain, sizes[l])), stream);
  }
};

/// Chains of all sets, cut alike.
std::vector<ConvChain> chains_of(Operands const& operands, ConvOptions const& options, int sets) {
  std::vector<ConvChain> result;
  for (int set = 0; set < sets; ++set) {
    auto made = ConvChain::make(operands.chain, operands.buffers(set), options);
    if (!made) {
      std::printf("  not here: %s\n", to_text(made.error()).c_str());
      return {};
    }
    result.push_back(std::move(*made));
  }
  return result;
}

std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<ConvChain>& chains) {
  return [&chains](cudaStream_t stream, int set) {
    auto const done = chains[static_cast<std::size_t>(set) % chains.size()].run(stream);
    if (!done) std::printf("  %s\n", to_text(done.error()).c_str());
    return done ? cudaSuccess : cudaErrorLaunchFailure;
  };
}

/// One layer of a chain by itself. An older activation that it adds is given.
LayerChain alone(Operands const& operands, std::size_t l) {
  auto const& [height, width, channels] = operands.sizes[l];
  LayerChain result{operands.chain.images, height, width, channels, {operands.chain.layers[l]}};
  result.type = operands.chain.type;
  if (auto& residual = result.layers[0].residual; residual >= 0) residual = k_given_residual;
  return result;
}

/// Of all sets, every layer as a launch of its own, cut as `planned` has it: the same kernels, without waits
/// from tile to tile. `early`: launches load filters while the one before still runs.
std::vector<std::vector<ConvChain>> launches_of(Operands const& operands,
                                                std::vector<ChainPart> const& planned, bool early,
                                                bool by_layer) {
  std::vector<std::vector<ConvChain>> result;
  for (int set = 0; set < operands.sets.count(); ++set) {
    auto& layers = result.emplace_back();
    auto const all = operands.buffers(set);
    for (auto const& part : planned)
      for (std::size_t i = 0; i < part.cut.stages.size(); ++i) {
        auto const l = part.first + i;
        ConvOptions options;
        options.by_layer = by_layer;
        options.cuts = {part.cut.stages[i].cut};
        options.starts_early = early && l > 0;
        auto const from = operands.layer(l, set);
        ConvBuffers buffers{from.input, {all.layers[l]}};
        buffers.layers[0].residual = from.residual;
        auto made = ConvChain::make(alone(operands, l), buffers, options);
        if (!made) {
          std::printf("  not here: %s\n", to_text(made.error()).c_str());
          return {};
        }
        layers.push_back(std::move(*made));
      }
  }
  return result;
}

std::function<cudaError_t(cudaStream_t, int)> work_of(std::vector<std::vector<ConvChain>>& sets) {
  return [&sets](cudaStream_t stream, int set) {
    for (auto& one : sets[static_cast<std::size_t>(set) % sets.size()])
      if (auto const done = one.run(stream); !done) {
        std::printf("  %s\n", to_text(done.error()).c_str());
        return cudaErrorLaunchFailure;
      }
    return cudaSuccess;
  };
}

/// Of all sets, one layer as a launch of its own.
std::vector<ConvChain> layer_alone(Operands const& operands, std::size_t l, ConvOptions const& options,
                                   int sets) {
  std::vector<ConvChain> result;
  for (int set = 0; set < sets; ++set) {
    auto const from = operands.layer(l, set);
    ConvBuffers buffers{from.input, {operands.buffers(set).layers[l]}};
    buffers.layers[0].residual = from.residual;
    auto made = ConvChain::make(alone(operands, l), buffers, options);
    if (!made) {
      std::printf("  not here: %s\n", to_text(made.error()).c_str());
      return {};
    }
    result.push_back(std::move(*made));
  }
  return result;
}

/// What cuts of a layer took, in a graph of so many launches, the fastest first.
struct TriedCuts {
  std::size_t layer = 0;
  int in_graph = 0;
  std::vector<std::pair<double, Cut>> tried;
};
void write_cuts(JsonWriter& json, std::vector<TriedCuts> const& all) {
  json.key("cuts").begin_array();
  for (auto const& one : all) {
    json.begin_object().member("layer", static_cast<int>(one.layer)).member("in_graph", one.in_graph);
    json.key("tried").begin_object();
    for (auto const& [us, cut] : one.tried) json.member(to_string(cut), bench::with_decimals(us, 2));
    json.end_object().end_object();
  }
  json.end_array();
}

/// Of each layer the fastest of some cuts as a launch of its own, behind others of its kind. Layers that are
/// alike are measured once. `measured`: all of them.
ConvOptions tuned_layers(Operands const& operands, std::size_t most, int sms, int sets, bench::Timer& timer,
                         cudaStream_t stream, std::vector<TriedCuts>& measured) {
  ConvOptions result;
  result.by_layer = true;
  std::vector<LayerChain> seen;
  std::vector<Cut> taken;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
    auto const one = alone(operands, l);
    auto const before = std::find_if(seen.begin(), seen.end(), [&](LayerChain const& other) {
      return other.width == one.width && other.channels == one.channels && other.layers == one.layers;
    });
    if (before != seen.end()) {
      result.cuts.push_back(taken[static_cast<std::size_t>(before - seen.begin())]);
      continue;
    }
    auto const input = operands.sizes[l];
    std::vector<std::pair<double, Cut>> tried;
    for (auto const& cut : layer_cuts(input, one.layers[0], one.images, sms, most)) {
      ConvOptions options;
      options.by_layer = options.starts_early = true;
      options.cuts = {cut};
      auto some = layer_alone(operands, l, options, sets);
      if (some.empty()) continue;
      for (auto& chain : some)
        if (!chain.run(stream)) std::printf("  not launched\n");
      check(cudaStreamSynchronize(stream), to_string(cut).c_str());
      tried.emplace_back(timer.quick(work_of(some), 5), cut);
    }
    std::stable_sort(tried.begin(), tried.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < tried.size(); ++i) {
      auto const stage = stage_of(input, one.layers[0], one.images, tried[i].second, nullptr);
      auto const memory = memory_of(stage);
      std::printf("    %zux%d stride %d: %5.2f us, priced %5.2f: %s, %d tiles, ring of %d of %d, %d KB\n",
                  static_cast<std::size_t>(input.width), input.channels, one.layers[0].stride, tried[i].first,
                  layer_us(stage, one.layers[0].residual != -1, sms), to_string(tried[i].second).c_str(),
                  stage.tiles(), memory.slots, stage.slots(), memory.bytes() / 1024);
    }
    seen.push_back(one);
    taken.push_back(tried.empty() ? Cut{} : tried.front().second);
    result.cuts.push_back(taken.back());
    measured.push_back({l, sets, std::move(tried)});
  }
  return result;
}

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

/// Where a chain's time is: of each layer, from the launch's first tile on, in microseconds, means over tiles
/// and the last one's, of the moments that stamps keep. The last of some launches, each of another set.
void print_stamps(Operands const& operands, ConvOptions options, int sets, cudaStream_t stream) {
  options.keep_times = true;
  auto chains = chains_of(operands, options, sets);
  for (int round = 0; round < 2; ++round)
    for (auto& one : chains)
      if (!one.run(stream)) return;
  if (chains.empty() || !chains.back().finish()) return;
  unsigned long long first = ~0ull;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l)
    for (auto const& tile : chains.back().times(l)) first = std::min(first, tile.begun);
  using few_tokens::TileTimes;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
    auto const tiles = chains.back().times(l);
    std::printf("    layer %zu, %zu tiles:", l, tiles.size());
    for (auto const& [name, which] : {std::pair{"begun", &TileTimes::begun},
                                      {"fed", &TileTimes::fed},
                                      {"read", &TileTimes::read},
                                      {"stored", &TileTimes::stored}}) {
      double mean = 0, last = 0;
      for (auto const& tile : tiles) {
        double const us = static_cast<double>(tile.*which - first) / 1e3;
        mean += us / static_cast<double>(tiles.size()), last = std::max(last, us);
      }
      std::printf("  %s %.2f (last %.2f)", name, mean, last);
    }
    std::printf("\n");
  }
}

struct Outcome {
  double floor_us = 0, chain_us = 0, cudnn_us = 0;
};

/// The layers of a chain by cuDNN, each by the fastest of its plans; layers that are alike have one.
class ByCudnn {
 public:
  ByCudnn(Operands const& operands, bench::Timer& timer, cudaStream_t stream) : operands_(operands) {
    std::vector<cudnn::Problem> seen;
    for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
      auto const problem = cudnn::problem_of(operands.chain, l);
      auto const found = std::find(seen.begin(), seen.end(), problem);
      kinds_.push_back(static_cast<std::size_t>(found - seen.begin()));
      if (found != seen.end()) continue;
      seen.push_back(problem);
      best_.push_back(-1);
    }
    for (auto& of_kind : cudnn::Plans::of_all(seen, k_cudnn_plans, k_cudnn_seconds))
      plans_.push_back(std::move(of_kind));
    for (std::size_t kind = 0; kind < plans_.size(); ++kind) choose(kind, timer, stream);
  }

  bool can() const {
    return std::none_of(best_.begin(), best_.end(), [](int plan) { return plan < 0; });
  }
  std::string words() const {
    std::string result;
    for (std::size_t kind = 0; kind < plans_.size(); ++kind)
      result += (kind > 0 ? "; plan " : "plan ") + plans_[kind].name(best_[kind]) + " of " +
                std::to_string(plans_[kind].count()) + " built, " + std::to_string(plans_[kind].offered()) +
                " offered";
    return result;
  }
  cudaError_t run(cudaStream_t stream, int set) const {
    for (std::size_t l = 0; l < kinds_.size(); ++l)
      if (!plans_[kinds_[l]].run(best_[kinds_[l]], operands_.layer(l, set), workspace_.get(), stream))
        return cudaErrorLaunchFailure;
    return cudaSuccess;
  }

 private:
  void choose(std::size_t kind, bench::Timer& timer, cudaStream_t stream) {
    double least = INFINITY;
    for (int plan = 0; plan < plans_[kind].count(); ++plan) {
      auto const all_of_kind = [&](cudaStream_t on, int set) {
        for (std::size_t l = 0; l < kinds_.size(); ++l)
          if (kinds_[l] == kind && !plans_[kind].run(plan, operands_.layer(l, set), workspace_.get(), on))
            return cudaErrorLaunchFailure;
        return cudaSuccess;
      };
      if (all_of_kind(stream, 0) != cudaSuccess) continue;
      check(cudaStreamSynchronize(stream), "cuDNN");
      if (double const us = timer.quick(all_of_kind, 5); us < least) least = us, best_[kind] = plan;
    }
  }

  Operands const& operands_;
  std::vector<std::size_t> kinds_;  ///< of each layer
  std::deque<cudnn::Plans> plans_;
  gpu::DeviceBuffer<char> workspace_{cudnn::Plans::most_workspace};
  std::vector<int> best_;
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

  auto const machine = with_device();
  if (!machine) std::exit(1);
  auto const places = places_on_device(machine->sms);
  if (!places) std::exit(1);
  std::deque<std::vector<ConvChain>> owned;
  std::vector<std::pair<double, ConvOptions>> tried;
  for (auto const& options : chain_options(chain, *places, most_cuts)) {
    auto& some = owned.emplace_back(chains_of(operands, options, few));
    if (some.empty()) continue;
    double const us = quick.quick(work_of(some), 5);
    for (auto& one : some)
      if (auto const ended = one.finish(); !ended) std::printf("  %s\n", to_text(ended.error()).c_str());
    auto const& cut = some.front().launches().front().cut;
    std::printf("    %7.2f us, priced %6.2f: %s, ring of %d x %d\n", us, cut.price / 1755,
                to_string(cut.stages.front().cut).c_str(), cut.rings.slots, cut.rings.slot_bytes);
    tried.emplace_back(us, options);
    owned.clear();
  }
  std::stable_sort(tried.begin(), tried.end(),
                   [](auto const& a, auto const& b) { return a.first < b.first; });
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
    if (row.name == "layers, early" || row.name == "chain, early" || row.name == "stream order" ||
        row.name == "launches, early" || row.name == "layers, stream order")
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
