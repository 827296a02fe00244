// SPDX-License-Identifier: Apache-2.0
// bench_peers <out.json> <about.json> tokens|layers|gathers|rows [<seconds>] [<name>...]: products with their
// collective on two GPUs (or as many as TESSERA_GPUS says), in one run and by turns: cuBLASLt and then NCCL,
// each way of ours, what tune() has found as a call of its own ("tuned"), the call of somebody who has tuned
// nothing ("untuned"), and the product and the collective alone, of which the longer is the ideal. Beside
// each way stands what it should take by bench/peers/predicted.hpp, which was computed before. Layers are
// those of docs/design/notes-peers.md, spread over the GPUs, the models that are measured most first.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/peers/predicted.hpp"
#include "kernels/gemm_collectives/alone.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "src/bench/asked_gpus.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/nccl.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;
using Operands = gemm_collectives::Operands;
using bench::check;

constexpr int k_rounds = 11, k_quick_rounds = 2;

/// In a graph: fewer of long products.
int calls_for(Problem const& problem) {
  constexpr double k_flops_a_us = 650e6;
  double const us = 2.0 * problem.rows * problem.columns * problem.depth / problem.ranks / k_flops_a_us;
  return us > 1000 ? 3 : 6;
}

struct Layer {
  std::string name;
  Problem problem;
};

std::vector<Layer> layers_of(std::string const& kind) {
  struct Model {
    char const* name;
    int rows, model, hidden;
  };
  Model const models[] = {{"llama-65b", 2048, 8192, 22016},   {"llama-65b", 512, 8192, 22016},
                          {"gpt-3", 2048, 12288, 49152},      {"t-nlg", 8192, 4256, 17024},
                          {"mega-gpt-2", 16384, 3072, 12288}, {"palm", 2048, 18432, 73728},
                          {"mt-nlg", 2048, 20480, 81920}};
  std::vector<Layer> result;
  auto const add = [&](Collective collective, Model const& model, std::string const& what, int rows,
                       int columns, int depth) {
    result.push_back({std::string(model.name) + "-" + what + "-" + std::to_string(rows),
                      {collective, rows, columns, depth}});
  };
  if (kind == "gathers")
    for (auto const& model : models)
      add(Collective::all_gather, model, "fc1", model.rows, model.hidden, model.model);
  if (kind == "layers")
    for (auto const& model : models)
      for (auto const collective : {Collective::reduce_scatter, Collective::all_reduce}) {
        std::string const what = collective == Collective::all_reduce ? "-ar" : "-rs";
        add(collective, model, "op" + what, model.rows, model.model, model.model);
        add(collective, model, "fc2" + what, model.rows, model.model, model.hidden);
      }
  if (kind == "tokens")
    for (auto const& model : models)
      for (int const rows : {1, 4, 8, 16, 32, 64}) {
        if (model.rows == 512) continue;
        add(Collective::all_reduce, model, "op", rows, model.model, model.model);
        add(Collective::all_reduce, model, "fc2", rows, model.model, model.hidden);
      }
  // From two rows to many, of one layer: is there a number of rows at which a call loses? Far apart first:
  // where time ends, all of the range has been measured.
  if (kind == "rows")
    for (int const rows : {512, 1024, 96, 256, 4096, 64, 384, 128, 768, 1536, 3001, 192, 8192, 2})
      for (auto const collective :
           {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
        bool const gathers = collective == Collective::all_gather;
        if (collective != Collective::all_reduce && rows < 64) continue;
        add(collective, models[0], to_string(collective), rows, gathers ? 22016 : 8192, 8192);
      }
  return result;
}

/// The fastest of a way.
struct Best {
  Tried tried;
  GemmCollective product;
  GangTimed timed;
};

class Bench {
 public:
  Bench(std::shared_ptr<PeerGroup> group, Gang& gang) : group_(std::move(group)), gang_(gang) {}

  void measure(Layer const& layer, PredictedTimes const& predicted, JsonWriter& json) {
    auto const& problem = layer.problem;
    int const calls = calls_for(problem);
    OperandRing const sets(group_, problem, calls);
    auto const tried = tune(group_, problem, {k_quick_rounds, calls}, gang_, sets);
    if (tried.empty()) {
      std::printf("%s is left out: no way is for it without NCCL\n", layer.name.c_str());
      return;
    }
    std::map<Way, Best> best;
    for (auto const& one : tried) {
      if (best.contains(one.options.way)) continue;
      auto made = must(GemmCollective::make(group_, problem, one.options));
      best.insert({one.options.way, {one, made, {one.name, {}}}});
    }
    // As a call is that nobody has tuned: by the way and the kernels that sizes choose.
    auto untuned = must(GemmCollective::make(group_, problem));
    GangTimed taken{untuned.name(), [&](std::vector<cudaStream_t> const& streams, int set) {
                      return untuned.run(sets.of(set), streams);
                    }};
    // As a call is behind remember(): what was fastest in the trials, which had fewer samples.
    auto tuned = must(GemmCollective::make(group_, problem, tried.front().options));
    GangTimed found{tuned.name(), [&](std::vector<cudaStream_t> const& streams, int set) {
                      return tuned.run(sets.of(set), streams);
                    }};
    std::optional<Alone> parts;
    if (best.contains(Way::sequential))
      parts.emplace(group_, problem, sets, best.at(Way::sequential).tried.options.kernel, calls);
    std::deque<GangTimed> none;
    auto& alone = parts ? parts->timed() : none;
    std::vector<GangTimed*> running;
    for (auto& [way, one] : best) {
      one.timed.work = [&product = one.product, &sets](std::vector<cudaStream_t> const& streams, int set) {
        return product.run(sets.of(set), streams);
      };
      running.push_back(&one.timed);
    }
    running.push_back(&taken);
    running.push_back(&found);
    for (auto& one : alone) running.push_back(&one);
    for (auto* one : running) gang_.capture(*one, calls, sets.count());
    gang_.rounds(running, k_rounds, calls);
    for (auto& [way, one] : best) must(one.product.finish());
    must(untuned.finish());
    must(tuned.finish());

    json.begin_object().member("layer", layer.name).member("collective", to_string(problem.collective));
    json.member("rows", problem.rows).member("columns", problem.columns).member("depth", problem.depth);
    json.member("sets", sets.count()).key("variants").begin_array();
    double sequential = NAN, ideal = 0;
    std::printf("%s:", layer.name.c_str());
    auto const write = [&](char const* name, GangTimed const& timed, std::optional<double> expected = {}) {
      double const us = median(timed.us);
      json.begin_object().member("variant", name).member("kernel", timed.name);
      json.member("us", bench::with_decimals(us, 2));
      json.member("us_p10", bench::with_decimals(quantile(timed.us, 0.1), 2));
      json.member("us_p90", bench::with_decimals(quantile(timed.us, 0.9), 2));
      if (expected) json.member("predicted_us", bench::with_decimals(*expected, 2));
      json.end_object();
      std::printf(" %s %.1f", name, us);
      if (expected) std::printf(" (%.1f)", *expected);
      return us;
    };
    for (auto& [way, one] : best) {
      double const us = write(to_string(way), one.timed, predicted.of(way));
      if (way == Way::sequential) sequential = us;
    }
    double const first = write("untuned", taken, predicted.of(untuned.way()));
    double const ours = write("tuned", found);
    for (auto const& one : alone) {
      auto const expected = one.name == "gemm" ? std::optional(predicted.product) : std::nullopt;
      double const us = write(one.name.c_str(), one, expected);
      if (one.name == "gemm" || one.name == "nccl") ideal = std::max(ideal, us);
    }
    json.end_array().key("trials").begin_array();
    for (auto const& one : tried)
      json.begin_object()
          .member("kernel", one.name)
          .member("us", bench::with_decimals(one.us, 2))
          .end_object();
    json.end_array();
    if (auto const way = predicted.chosen()) json.member("predicted_way", to_string(*way));
    json.end_object();
    std::printf("; seq/tuned %.2f seq/untuned %.2f ideal/tuned %.2f (%s)\n", sequential / ours,
                sequential / first, ideal / ours, tuned.name().c_str());
    std::fflush(stdout);
    for (auto* one : running) Gang::release(*one);
  }

 private:
  std::shared_ptr<PeerGroup> group_;
  Gang& gang_;
};

}  // namespace

int main(int count, char** arguments) {
  std::string const kind = count > 3 ? arguments[3] : "";
  if (layers_of(kind).empty()) {
    std::fprintf(stderr,
                 "usage: %s <out.json> <about.json> tokens|layers|gathers|rows [<seconds>] [<name>...]\n",
                 arguments[0]);
    return 2;
  }
  auto made = PeerGroup::make(bench::asked_devices());
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    return 3;
  }
  auto const group = *made;
  double const seconds = count > 4 ? std::atof(arguments[4]) : 600;
  auto const wanted = [&](std::string const& name) {
    return count <= 5 || std::any_of(arguments + 5, arguments + count,
                                     [&](char const* one) { return name.find(one) != std::string::npos; });
  };
  try {
    // Before anything is measured.
    std::vector<std::pair<Layer, PredictedTimes>> asked;
    Predictor predictor;
    for (auto layer : layers_of(kind)) {
      layer.problem.ranks = group->size();
      if (!wanted(layer.name) || !check_problem(layer.problem)) continue;
      auto times = predictor(layer.problem, PartKernel::own);
      asked.emplace_back(std::move(layer), std::move(times));
    }
    Gang gang(group);
    Bench bench(group, gang);
    std::string why;
    auto const* const nccl = group->nccl(why);
    if (nccl == nullptr) std::printf("without NCCL: %s\n", why.c_str());
    JsonWriter json;
    json.begin_object().key("about").raw(bench::about(arguments[2]));
    json.member("nccl_version", nccl != nullptr ? nccl->version() : 0);
    json.member("gpus", group->size());
    json.member("unit",
                "microseconds for one product with its collective, bf16; graphs of 6 calls (3 above a "
                "millisecond) on rotating sets, the longest of the ranks, medians");
    json.member("samples", k_rounds).member("predicted_for", "h200").key("layers").begin_array();
    auto const begin = std::chrono::steady_clock::now();
    for (auto const& [layer, predicted] : asked) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) {
        std::printf("%s is left out: no time\n", layer.name.c_str());
        continue;
      }
      bench.measure(layer, predicted, json);
      // After each: what was measured is not lost if something stops the rest.
      auto whole = json;
      if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
