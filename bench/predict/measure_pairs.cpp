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
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <tessera/report/json_text.hpp>
#include <thread>

#include "bench/common/program.hpp"
#include "bench/mlp/peers.hpp"
#include "gpu/event_timer.hpp"
#include "kernels/mlp/candidates.hpp"
#include "kernels/mlp/measure/arena.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;
using gemm_sm90::Half;
using gemm_sm90::PairPlan;

struct Model {
  char const* name;
  int model, hidden;
};
constexpr Model models[] = {{"gpt3", 12288, 6144}, {"llama", 8192, 2752}};
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
  pair.plan.columns_per_semaphore = columns == 0 ? mlp::whole_row : columns;
  pair.plan.early_weights = early != 0;
  pair.plan.chained = chained != 0;
  pair.kernels = text(pair.plan.first) + " > " + text(pair.plan.second);
  if (mechanism == "tiles")
    pair.kernels += columns == 0 ? ", a row" : ", " + std::to_string(columns) + " tiles";
  if (early != 0 && !pair.stock) pair.kernels += ", early weights";
  if (chained != 0) pair.kernels += ", chained";
  return true;
}

mlp::Candidate stock_pair(mlp::Shape const& shape, PairPlan const& plan) {
  mlp::Candidate result;
  result.launch = [=](mlp::Buffers const& b, mlp::Workspace const&, cudaStream_t stream) {
    auto const call = [](Half const& half, gemm_sm90::Problem const& problem) {
      gemm_sm90::Call one;
      one.problem = problem;
      one.band = half.band;
      one.most_blocks = half.most_blocks;
      return one;
    };
    using gemm_sm90::Activation;
    auto const first =
        call(plan.first, {shape.tokens, shape.hidden, shape.model, b.x, b.w1, b.h, Activation::gelu});
    auto second =
        call(plan.second, {shape.tokens, shape.model, shape.hidden, b.h, b.w2, b.y, Activation::none});
    second.programmatic = plan.mechanism == gemm_sm90::Mechanism::pdl;
    auto const error = plan.first.kernel->launch(first, stream);
    return error != cudaSuccess ? error : plan.second.kernel->launch(second, stream);
  };
  return result;
}

template <class T>
T or_stop(Expected<T> value) {
  if (value) return std::move(*value);
  std::fprintf(stderr, "%s\n", to_text(value.error()).c_str());
  std::exit(1);
}

/// What was measured of a pair.
struct Measured {
  Timed timed;
  double error = 0;
  bool right = false;
};

/// All pairs of a size in turns.
std::vector<Measured> measure(mlp::Arena& arena, mlp::Shape const& shape, std::vector<Pair> const& pairs) {
  if (auto const started = arena.start(shape.tokens); !started) {
    std::fprintf(stderr, "%s\n", to_text(started.error()).c_str());
    std::exit(1);
  }
  int const per_graph = arena.sets();
  Timer timer(arena.stream(), arena.sets(), per_graph);
  gpu::EventTimer events;
  std::vector<Measured> all(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const candidate =
        pairs[i].stock ? stock_pair(shape, pairs[i].plan) : mlp::tiled_pair(shape, pairs[i].plan);
    if (candidate) {
      all[i].timed.work = arena.work(*candidate);
      all[i].error = arena.verify(*candidate);
      all[i].right = all[i].error <= 2e-3 && timer.capture(all[i].timed);
    }
    if (!all[i].right) std::printf("WRONG %s: %g\n", pairs[i].kernels.c_str(), all[i].error);
  }
  auto const once = [&](Timed const& timed) {
    return events.ns(arena.stream(), [&] { check(cudaGraphLaunch(timed.graph, arena.stream()), "launch"); }) /
           1e3 / per_graph;
  };
  for (int visit = 0; visit < visits; ++visit)
    for (std::size_t j = 0; j < all.size(); ++j) {
      auto& [timed, error, right] = all[visit % 2 == 0 ? j : all.size() - 1 - j];
      if (!right) continue;
      for (double passed = 0; passed < settle_us + measure_us;) {
        auto const us = once(timed);
        passed += us * per_graph;
        if (passed > settle_us) timed.hot.push_back(us);
      }
    }
  for (int round = 0; round < visits; ++round)
    for (auto& [timed, error, right] : all) {
      if (!right) continue;
      once(timed);
      auto const us = once(timed);
      timed.cool.push_back(us);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(2 * rest * us * per_graph));
    }
  for (auto& one : all) timer.release(one.timed);
  return all;
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
  for (auto const& kernel : gemm_sm90::kernels()) check(gemm_sm90::prepare(kernel), kernel.info.name);
  JsonWriter json;
  json.begin_object().key("about").raw(about(arguments[2]));
  for (auto const& model : models) {
    if (all.count(model.name) == 0) continue;
    auto& sizes = all[model.name];
    json.key(model.name).begin_object().member("model_size", model.model).member("hidden_size", model.hidden);
    json.key("sizes").begin_array();
    mlp::Shape shape{sizes.rbegin()->first, model.model, model.hidden};
    auto const arena = or_stop(mlp::Arena::make(shape, stream));
    for (auto const& [tokens, pairs] : sizes) {
      shape.tokens = tokens;
      auto const measured = measure(*arena, shape, pairs);
      json.begin_object().member("tokens", tokens).key("variants").begin_array();
      double best = 1e9, chosen = 1e9;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (!measured[i].right) continue;
        double const hot = median(measured[i].timed.hot);
        json.begin_object().member("variant", pairs[i].klass).member("stock", pairs[i].stock);
        json.member("kernels", pairs[i].kernels).member("hot_us", with_decimals(hot, 2));
        json.member("cool_us", with_decimals(median(measured[i].timed.cool), 2));
        json.member("relative_error", with_digits(measured[i].error, 3)).end_object();
        best = std::min(best, hot);
        if (pairs[i].klass == "chosen") chosen = std::min(chosen, hot);
      }
      json.end_array().end_object();
      // After each size: what was measured is not lost if something stops the rest.
      auto whole = json;
      write_file(arguments[1], whole.end_array().end_object().end_object().text() + '\n');
      std::printf("%s %d: %zu pairs, best %.2f, chosen %.2f, %.3f\n", model.name, tokens, pairs.size(), best,
                  chosen, chosen / best);
    }
    json.end_array().end_object();
  }
  return write_file(arguments[1], json.end_object().text() + '\n') ? 0 : 1;
}
