// SPDX-License-Identifier: Apache-2.0
// measure_pairs <out.json> <about.json>: times the pairs that its input lists, a line each, all pairs of a
// size in turns:
//
//   <gpt3|llama> <tokens> <class> <recipe as JSON>
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
#include "bench/predict/recipes.hpp"
#include "bench/tessera_bench/cutlass.hpp"
#include "kernels/bindings/families.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/event_timer.hpp"
#include "tessera/measure/statistics.hpp"
#include "tessera/plan/recipe_json.hpp"
#include "tessera/run/device.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/tune/plans.hpp"
#include "tessera/tune/workbench.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;

struct Model {
  char const* name;
  int model, hidden;
};
constexpr Model models[] = {{"gpt3", 12288, 6144}, {"llama", 8192, 2752}};
constexpr int visits = 3;
constexpr double settle_us = 35e3, measure_us = 20e3;
constexpr double rest = 8;  // times as long as the work, when cool

struct Listed {
  std::string model, klass;
  int tokens = 0;
  NamedRecipe recipe;
};

template <class T>
T or_stop(Expected<T> value) {
  if (value) return std::move(*value);
  std::fprintf(stderr, "%s\n", to_text(value.error()).c_str());
  std::exit(1);
}

bool read(std::string const& line, Listed& one) {
  std::istringstream in(line);
  in >> one.model >> one.tokens >> one.klass;
  if (!in) return false;
  one.recipe = or_stop(parse_recipe(std::string(std::istreambuf_iterator<char>(in), {}), "recipe"));
  return true;
}

/// What was measured of a pair.
struct Measured {
  std::string name;
  Launchable launchable;
  Timed timed;
  double error = 0;
  bool right = false;
};

/// All pairs of a size in turns.
std::vector<Measured> measure(MlpShape const& shape, std::vector<Listed> const& pairs,
                              Registry const& kernels, Bindings const& bindings, cudaStream_t stream) {
  auto const machine = or_stop(with_device());
  auto const graph = mlp_graph(shape);
  auto const bench = or_stop(Workbench::make(graph, kernels, bindings, stream));
  auto const subject = bench.subject(1);
  int const per_graph = bench.sets();
  Timer timer(stream, bench.sets(), per_graph);
  gpu::EventTimer events;
  std::vector<Measured> all(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const plan = build_plan(graph, with_variants(pairs[i].recipe), kernels, machine);
    all[i].name = plan ? plan_name(*plan) : print_recipe(pairs[i].recipe);
    if (auto made = plan ? subject.make(*plan) : tl::make_unexpected(plan.error())) {
      all[i].launchable = std::move(*made);
      all[i].timed.work = [&one = all[i].launchable](cudaStream_t on, int set) {
        return static_cast<cudaError_t>(one.launch(on, set));
      };
      all[i].error = all[i].launchable.error();
      all[i].right = all[i].error <= k_allowed_error && timer.capture(all[i].timed);
    } else {
      std::printf("%s\n", to_text(made.error()).c_str());
    }
    if (!all[i].right) std::printf("WRONG %s: %g\n", all[i].name.c_str(), all[i].error);
  }
  auto const once = [&](Timed const& timed) {
    return events.ns(stream, [&] { check(cudaGraphLaunch(timed.graph, stream), "launch"); }) / 1e3 /
           per_graph;
  };
  for (int visit = 0; visit < visits; ++visit)
    for (std::size_t j = 0; j < all.size(); ++j) {
      auto& [name, launchable, timed, error, right] = all[visit % 2 == 0 ? j : all.size() - 1 - j];
      if (!right) continue;
      for (double passed = 0; passed < settle_us + measure_us;) {
        auto const us = once(timed);
        passed += us * per_graph;
        if (passed > settle_us) timed.hot.push_back(us);
      }
    }
  for (int round = 0; round < visits; ++round)
    for (auto& [name, launchable, timed, error, right] : all) {
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
  std::map<std::string, std::map<int, std::vector<Listed>>> all;
  for (std::string line; std::getline(std::cin, line);) {
    Listed one;
    if (!read(line, one)) {
      std::fprintf(stderr, "not understood: %s\n", line.c_str());
      return 2;
    }
    all[one.model][one.tokens].push_back(one);
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  auto kernels = shipped_kernels();
  auto bindings = shipped_bindings();
  if (auto const added = add_cutlass(kernels, bindings); !added) {
    std::fprintf(stderr, "%s\n", to_text(added.error()).c_str());
    return 1;
  }
  JsonWriter json;
  json.begin_object().key("about").raw(about(arguments[2]));
  for (auto const& model : models) {
    if (all.count(model.name) == 0) continue;
    auto& sizes = all[model.name];
    json.key(model.name).begin_object().member("model_size", model.model).member("hidden_size", model.hidden);
    json.key("sizes").begin_array();
    for (auto const& [tokens, pairs] : sizes) {
      auto const measured =
          measure({model.model, model.hidden, tokens, false}, pairs, kernels, bindings, stream);
      json.begin_object().member("tokens", tokens).key("variants").begin_array();
      double best = 1e9, chosen = 1e9;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (!measured[i].right) continue;
        double const hot = median(measured[i].timed.hot);
        json.begin_object().member("variant", pairs[i].klass).member("kernels", measured[i].name);
        json.key("recipe").raw(print_recipe(pairs[i].recipe)).member("hot_us", with_decimals(hot, 2));
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
