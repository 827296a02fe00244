// SPDX-License-Identifier: Apache-2.0
// measure_pairs <out.json> <about.json>: times the pairs that its input lists, a line each, all pairs of a
// size in turns:
//
//   <gpt3|llama> <tokens> <class> <stock|own> <stream|pdl|tiles> <kernel> <band> <persistent> <kernel> <band>
//        <persistent> <columns per semaphore, 0: a row> <early weights> <chained>
//
// <class> is copied into the record. Each visit of a pair runs it alone until the clock has settled, so that
// hot means at its own power, not at that of the pairs beside it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "bench/mlp/peers.hpp"
#include "bench/predict/arena.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;
using gemm_sm90::Half;
using gemm_sm90::PairPlan;

constexpr Model models[] = {{"gpt3", 12288, 6144}, {"llama", 8192, 2752}};
constexpr int whole_row = 1 << 20;
constexpr int visits = 3;
constexpr double settle_us = 35e3, measure_us = 20e3;
constexpr double rest = 8;  // times as long as the work, when cool

struct Pair {
  std::string model, klass, kernels;
  int tokens = 0;
  bool stock = false;
  PairPlan plan;
};

std::string text(Half const& half) {
  return std::string(half.kernel->info.name) +
         (half.band == 0 ? std::string(" columns") : " bands of " + std::to_string(half.band)) +
         (half.most_blocks > 0 ? " persistent" : "");
}

bool read(std::istream& in, bool stock, Half& half, int sms) {
  std::string name;
  int persistent = 0;
  in >> name >> half.band >> persistent;
  half.most_blocks = persistent != 0 ? sms : 0;
  for (auto const& kernel : stock ? stock_kernels() : gemm_sm90::kernels())
    if (name == kernel.info.name) half.kernel = &kernel;
  return half.kernel != nullptr;
}

bool read(std::string const& line, Pair& pair, int sms) {
  std::istringstream in(line);
  std::string who, mechanism;
  int columns = 1, early = 0;
  in >> pair.model >> pair.tokens >> pair.klass >> who >> mechanism;
  pair.stock = who == "stock";
  if (!read(in, pair.stock, pair.plan.first, sms) || !read(in, pair.stock, pair.plan.second, sms))
    return false;
  int chained = 0;
  if (!(in >> columns >> early >> chained)) return false;
  pair.plan.mechanism = mechanism == "pdl"     ? gemm_sm90::Mechanism::pdl
                        : mechanism == "tiles" ? gemm_sm90::Mechanism::pdl_tiles
                                               : gemm_sm90::Mechanism::stream_order;
  pair.plan.columns_per_semaphore = columns == 0 ? whole_row : columns;
  pair.plan.early_weights = early != 0;
  pair.plan.chained = chained != 0;
  pair.kernels = text(pair.plan.first) + " > " + text(pair.plan.second);
  if (mechanism == "tiles")
    pair.kernels += columns == 0 ? ", a row" : ", " + std::to_string(columns) + " tiles";
  if (early != 0 && !pair.stock) pair.kernels += ", early weights";
  if (chained != 0) pair.kernels += ", chained";
  return true;
}

Variant variant_of(Arena& arena, Pair const& pair) {
  auto const plan = pair.plan;
  if (pair.stock)
    return {
        pair.klass, pair.kernels, [&arena, plan](cudaStream_t stream, int set) {
          auto const& b = arena.set[set];
          auto const call = [&](Half const& half, gemm_sm90::Problem const& problem) {
            gemm_sm90::Call one;
            one.problem = problem;
            one.band = half.band;
            one.most_blocks = half.most_blocks;
            return one;
          };
          using gemm_sm90::Activation;
          auto const first =
              call(plan.first, {b.tokens, b.hidden, b.model, b.x, b.w1, b.h, Activation::gelu});
          auto second = call(plan.second, {b.tokens, b.model, b.hidden, b.h, b.w2, b.y, Activation::none});
          second.programmatic = plan.mechanism == gemm_sm90::Mechanism::pdl;
          auto const error = plan.first.kernel->launch(first, stream);
          return error != cudaSuccess ? error : plan.second.kernel->launch(second, stream);
        }};
  long long const words = (gemm_sm90::counters_of(plan, arena.set[0]) + 15) / 16 * 16;
  if (arena.counters_used + words * sets > arena.counter_words) check(cudaErrorMemoryAllocation, "counters");
  auto* const counters = arena.counters + arena.counters_used;
  arena.counters_used += words * sets;
  return {pair.klass, pair.kernels, [&arena, plan, counters, words](cudaStream_t stream, int set) {
            auto buffers = arena.set[set];
            buffers.counters = counters + words * set;
            return gemm_sm90::launch_pair(plan, buffers, stream);
          }};
}

double once(Variant const& variant, cudaStream_t stream, cudaEvent_t const (&events)[2], int per_graph) {
  check(cudaEventRecord(events[0], stream), "record");
  check(cudaGraphLaunch(variant.graph, stream), "launch");
  check(cudaEventRecord(events[1], stream), "record");
  check(cudaStreamSynchronize(stream), "run");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "elapsed");
  return 1000.0 * milliseconds / per_graph;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
  std::map<std::string, std::map<int, std::vector<Pair>>> all;
  for (std::string line; std::getline(std::cin, line);) {
    Pair pair;
    if (!read(line, pair, sms)) {
      std::fprintf(stderr, "not understood: %s\n", line.c_str());
      return 2;
    }
    all[pair.model][pair.tokens].push_back(pair);
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cudaEvent_t events[2];
  for (auto& event : events) check(cudaEventCreate(&event), "event");
  for (auto const& kernel : gemm_sm90::kernels()) check(gemm_sm90::prepare(kernel), kernel.info.name);
  std::stringstream about;
  about << std::ifstream(arguments[2]).rdbuf();
  std::ofstream out(arguments[1]);
  out << "{\"about\": " << (about.str().empty() ? "{}" : about.str());
  for (auto const& model : models) {
    if (all.count(model.name) == 0) continue;
    auto& sizes = all[model.name];
    out << ",\n\"" << model.name << "\": {\"model_size\": " << model.model
        << ", \"hidden_size\": " << model.hidden << ", \"sizes\": [";
    int const per_graph = model.hidden > 4096 ? 4 : 8;
    Timer timer(stream, sets, per_graph);
    Arena arena = make_arena(model, sizes.rbegin()->first, stream);
    bool first_size = true;
    for (auto const& [tokens, pairs] : sizes) {
      start_size(arena, tokens, stream);
      std::vector<Variant> variants;
      std::vector<double> cool(pairs.size()), error(pairs.size());
      for (auto const& pair : pairs) variants.push_back(variant_of(arena, pair));
      std::vector<bool> right(pairs.size());
      for (std::size_t i = 0; i < variants.size(); ++i) {
        error[i] = verify(arena, variants[i], stream);
        right[i] = error[i] <= 2e-3 && timer.capture(variants[i]);
        if (!right[i]) std::printf("WRONG %s: %g\n", variants[i].detail.c_str(), error[i]);
      }
      for (int visit = 0; visit < visits; ++visit)
        for (std::size_t j = 0; j < variants.size(); ++j) {
          auto const i = visit % 2 == 0 ? j : variants.size() - 1 - j;
          if (!right[i]) continue;
          for (double passed = 0; passed < settle_us + measure_us;) {
            auto const us = once(variants[i], stream, events, per_graph);
            passed += us * per_graph;
            if (passed > settle_us) variants[i].samples.push_back(us);
          }
        }
      std::vector<double> hot;
      for (auto& variant : variants) {
        hot.push_back(median(variant.samples));
        variant.samples.clear();
      }
      for (int round = 0; round < visits; ++round)
        for (std::size_t i = 0; i < variants.size(); ++i) {
          if (!right[i]) continue;
          once(variants[i], stream, events, per_graph);
          auto const us = once(variants[i], stream, events, per_graph);
          variants[i].samples.push_back(us);
          std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(2 * rest * us * per_graph));
        }
      out << (first_size ? "" : ",") << "\n {\"tokens\": " << tokens << ", \"variants\": [";
      first_size = false;
      double best = 1e9, chosen = 1e9;
      bool first = true;
      for (std::size_t i = 0; i < variants.size(); ++i) {
        if (!right[i]) continue;
        char line[500];
        std::snprintf(line, sizeof line,
                      "%s\n  {\"variant\": \"%s\", \"stock\": %s, \"kernels\": \"%s\", \"hot_us\": %.2f, "
                      "\"cool_us\": %.2f, \"relative_error\": %.2e}",
                      first ? "" : ",", pairs[i].klass.c_str(), pairs[i].stock ? "true" : "false",
                      pairs[i].kernels.c_str(), hot[i], median(variants[i].samples), error[i]);
        out << line;
        first = false;
        best = std::min(best, hot[i]);
        if (pairs[i].klass == "chosen") chosen = std::min(chosen, hot[i]);
        timer.release(variants[i]);
      }
      out << "]}";
      out.flush();
      std::printf("%s %d: %zu pairs, best %.2f, chosen %.2f, %.3f\n", model.name, tokens, pairs.size(), best,
                  chosen, chosen / best);
    }
    out << "]}";
    release(arena);
  }
  out << "}\n";
  return 0;
}
