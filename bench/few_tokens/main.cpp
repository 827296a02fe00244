// SPDX-License-Identifier: Apache-2.0
// bench_few_tokens <out.json> <about.json> <gpt3|llama|mixtral> <tokens>...: a chain of eight MLPs
// for few tokens, each with weights of its own and the one before as its input: as one persistent loop of
// tile operations, with all rings that a tuner may try, as eight launches of the hand-written kernel, chained
// by PDL or in stream order, and as the reading of the weights alone, in one run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "bench/skinny_mlp/floor.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/few_tokens/mlp_chain.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"
#include "src/bench/operand_sets.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using bench::check;
using bench::OperandSets;

struct Model {
  char const* name;
  int model;
  int hidden;
  mlp::Form form;
};
constexpr Model models[] = {{"gpt3", 12288, 6144, mlp::Form::gelu},
                            {"llama", 8192, 2752, mlp::Form::swiglu},
                            {"mixtral", 4096, 3584, mlp::Form::swiglu}};
constexpr int mlps = 8;
constexpr int most_orders = 8;  // of adding, among chain_configs()
constexpr int rounds = 60;
constexpr int cool_rounds = 20;
constexpr double rest = 8;  // as long as the work

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

struct Bench {
  Model model;
  mlp::Shape shape;
  OperandSets weights;  ///< of each MLP, w2 behind w1
  OperandSets shared;
  cudaStream_t stream;

  Bench(Model const& of, int tokens, cudaStream_t on)
      : model(of), shape{tokens, of.model, of.hidden, of.form}, stream(on) {
    auto const fill_weights = [this](void* memory, std::size_t, int set, cudaStream_t) {
      auto const seed = static_cast<unsigned long long>(10 * set);
      auto* const w2 = static_cast<char*>(memory) + first_bytes();
      bench::fill_random(memory, first_bytes() / 2, shape.type, seed + 1, 1 / std::sqrt(float(model.model)),
                         stream);
      bench::fill_random(w2, area(model.hidden, model.model), shape.type, seed + 2,
                         1.6f / std::sqrt(float(model.hidden)), stream);
    };
    check(weights.make({{"weights", bytes(), fill_weights}}, mlps, stream), "weights");
    std::size_t const x = area(tokens, model.model), wide = area(tokens, first_rows());
    check(shared.make({{"input", 2 * x, bench::random_numbers(shape.type, 3, 1)},
                       {"x0", 2 * x},
                       {"x1", 2 * x},
                       {"h", 2 * area(tokens, model.hidden)},
                       {"sums", 4 * wide},
                       {"reference", 4 * x},
                       {"results", 2 * x * most_orders},
                       {"workspace", 4 * skinny_sm90::workspace_words(model.hidden), bench::zeros()},
                       {"stall", sizeof(StallRecord), bench::zeros()}},
                      1, stream),
          "memory");
    refill(stream);
    for (int i = 0; i < mlps; ++i) {
      reference_mlp(shape, buffers(i), shared.as<float>("sums"), nullptr, shared.as<float>("reference"),
                    false, stream);
      bench::reference_activation(shared.as<float>("reference"), bench::ReferenceActivation::none, x, nullptr,
                                  x_of(i), shape.type, stream);
    }
    check(cudaStreamSynchronize(stream), "filling");
  }

  int first_rows() const { return model.hidden * (model.form == mlp::Form::swiglu ? 2 : 1); }
  std::size_t first_bytes() const { return 2 * area(first_rows(), model.model); }
  std::size_t bytes() const { return first_bytes() + 2 * area(model.hidden, model.model); }
  void* x_of(int mlp) const { return shared.at(mlp % 2 == 0 ? "x0" : "x1"); }
  mlp::Buffers buffers(int mlp) const {
    auto* const w = weights.as<char>("weights", mlp);
    return {x_of(mlp + 1), w, shared.at("h"), w + first_bytes(), x_of(mlp)};
  }
  std::size_t x_size() const { return area(shape.tokens, model.model); }
  /// Before each chain: what a chain computes must not become smaller from replay to replay.
  cudaError_t refill(cudaStream_t on) const {
    return cudaMemcpyAsync(x_of(1), shared.at("input"), 2 * x_size(), cudaMemcpyDeviceToDevice, on);
  }
};

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  bool computes = true;
  int order = 0;  ///< in which a loop adds: a slot's bytes, and 1 more for words, which cut slots otherwise
  double error = 0;
};

/// Of the last MLP's result against the reference chain; NaN after a stall.
double error_of(Bench const& bench, Row const& row) {
  bench::poison(bench.shared.at("h"), area(bench.shape.tokens, bench.shape.hidden), bench.stream);
  for (int i = 0; i < 2; ++i) bench::poison(bench.x_of(i), bench.x_size(), bench.stream);
  for (int i = 0; i < mlps; ++i) check(row.timed.work(bench.stream, i), row.name.c_str());
  double const error = bench::relative_error(bench.x_of(mlps - 1), bench.shared.as<float>("reference"),
                                             bench.x_size(), bench.shape.type, bench.stream);
  StallRecord record;
  check(cudaMemcpy(&record, bench.shared.at("stall"), sizeof record, cudaMemcpyDeviceToHost),
        "reading the stall record");
  return record.state == 0 ? error : NAN;
}

/// Elements in which a loop's result differs from the first one's that adds in the same order. `seen`: such
/// orders, in the order of the buffers that keep results.
unsigned long long differing_bits(Bench const& bench, Row const& row, std::vector<int>& seen) {
  auto const found = std::find(seen.begin(), seen.end(), row.order);
  auto* const kept =
      bench.shared.as<char>("results") + 2 * bench.x_size() * static_cast<std::size_t>(found - seen.begin());
  if (found != seen.end()) return bench::differing(kept, bench.x_of(mlps - 1), bench.x_size(), bench.stream);
  check(cudaMemcpy(kept, bench.x_of(mlps - 1), 2 * bench.x_size(), cudaMemcpyDeviceToDevice), "keeping");
  seen.push_back(row.order);
  return 0;
}

std::vector<Row> rows_of(Bench const& bench, bench::Timer& timer) {
  std::vector<Row> rows;
  auto const add = [&](std::string name, std::string detail,
                       std::function<cudaError_t(cudaStream_t, int)> work) -> Row& {
    return rows.emplace_back(Row{{}, std::move(name), std::move(detail), {std::move(work)}});
  };
  for (int const blocks : {128, 132})
    add("floor", "reads the weights with " + std::to_string(blocks) + " blocks",
        [&, blocks](cudaStream_t stream, int set) {
          return bench::stream_through(bench.weights.at("weights", set), bench.bytes(), blocks, stream);
        })
        .computes = false;
  auto const hand_written = [&](skinny_sm90::Plan const& plan, bool programmatic) {
    return [&bench, plan, programmatic](cudaStream_t stream, int set) {
      if (set == 0)
        if (auto const e = bench.refill(stream); e != cudaSuccess) return e;
      skinny_sm90::Call call;
      call.buffers = bench.buffers(set);
      call.workspace = bench.shared.as<unsigned>("workspace");
      call.programmatic = programmatic && set > 0;
      call.watch = {bench.shared.as<StallRecord>("stall"), 200'000'000};
      return launch(plan, call, stream);
    };
  };
  skinny_sm90::Plan best;
  double least = INFINITY;
  for (auto const& config : skinny_sm90::configs(bench.shape)) {
    skinny_sm90::Plan plan;
    if (prepare(bench.shape, config, &plan) != cudaSuccess) continue;
    if (double const time = timer.quick(hand_written(plan, true), 7); time < least) least = time, best = plan;
  }
  add("launches, PDL", to_string(best.config), hand_written(best, true));
  add("launches", to_string(best.config), hand_written(best, false));
  for (auto config : few_tokens::chain_configs(bench.shape.tokens)) {
    config.starts_early = true;
    auto const detail = to_string(config);
    few_tokens::MlpChainBuffers buffers;
    buffers.x[0] = bench.x_of(0), buffers.x[1] = bench.x_of(1);
    buffers.h = bench.shared.at("h");
    for (int i = 0; i < mlps; ++i) buffers.weights.push_back({bench.buffers(i).w1, bench.buffers(i).w2});
    auto const chain = few_tokens::MlpChain::make(bench.shape, buffers, config);
    if (!chain) {
      std::printf("  not here: %s\n%s\n", detail.c_str(), to_text(chain.error()).c_str());
      continue;
    }
    add("loop", detail, [&bench, chain = *chain](cudaStream_t stream, int set) mutable {
      if (set > 0) return cudaSuccess;
      if (auto const e = bench.refill(stream); e != cudaSuccess) return e;
      auto const done = chain.launch(stream, mlps);
      if (!done) std::printf("%s\n", to_text(done.error()).c_str());
      return done ? cudaSuccess : cudaErrorLaunchFailure;
    }).order = config.slot_bytes + (config.tokens_in_data ? 1 : 0) + (config.cluster_blocks > 1 ? 2 : 0);
  }
  return rows;
}

void measure(Bench const& bench, bench::Timer& timer, std::vector<Row>& rows) {
  std::vector<bench::Timed*> running;
  std::vector<int> seen;
  for (Row& row : rows) {
    if (row.computes) row.error = error_of(bench, row);
    if (row.order > 0)
      if (auto const bits = differing_bits(bench, row, seen); bits > 0) {
        std::printf("  %llu of %zu elements differ\n", bits, bench.x_size());
        row.error = NAN;
      }
    // Rounding errors grow from MLP to MLP.
    if (!(row.error <= 8e-2)) {
      std::printf("  WRONG %s, %s: error %g\n", row.name.c_str(), row.detail.c_str(), row.error);
      continue;
    }
    if (timer.capture(row.timed)) running.push_back(&row.timed);
  }
  bench::time_rows(timer, running, rows, rounds, cool_rounds, rest);
}

double best(std::vector<Row> const& rows, char const* name) {
  double result = INFINITY;
  for (Row const& row : rows)
    if (row.median > 0 && row.name == name) result = std::min(result, row.median);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<int> tokens;
  Model const* model = nullptr;
  for (int i = 3; i < count; ++i) {
    for (Model const& one : models)
      if (std::strcmp(one.name, arguments[i]) == 0) model = &one;
    if (int const number = std::atoi(arguments[i]); number >= 1 && number <= few_tokens::k_most_tokens)
      tokens.push_back(number);
  }
  if (model == nullptr || tokens.empty()) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> <gpt3|llama|mixtral> <tokens>...\n",
                 arguments[0]);
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  bench::Timer timer(stream, mlps, mlps);
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2])).member("model", model->name);
  json.member("model_size", model->model).member("hidden_size", model->hidden).member("mlps", mlps);
  json.member("unit",
              "microseconds for one MLP of the chain; medians; cool: after rests of 8 times the work");
  json.member("samples", rounds).key("sizes").begin_array();
  for (int const one : tokens) {
    Bench const bench(*model, one, stream);
    std::vector<Row> rows = rows_of(bench, timer);
    measure(bench, timer, rows);
    double const floor = best(rows, "floor"), launches = best(rows, "launches, PDL"),
                 loop = best(rows, "loop");
    std::printf(
        "%-7s T=%-3d floor %.2f us, launches by PDL %.2f (%.3f), loop %.2f (%.3f), launches/loop %.3f\n",
        model->name, one, floor, launches, launches / floor, loop, loop / floor, launches / loop);
    for (Row const& row : rows)
      std::printf("  %-14s %7.2f (%.2f...%.2f) %.3f  cool %.2f  err %.1e  %s\n", row.name.c_str(), row.median,
                  row.low, row.high, row.median / floor, row.cool, row.error, row.detail.c_str());
    std::fflush(stdout);
    json.begin_object().member("tokens", one).member("floor_us", bench::with_digits(floor, 6));
    json.member("loop_over_floor", bench::with_digits(loop / floor, 6));
    json.member("launches_over_loop", bench::with_digits(launches / loop, 6)).key("variants").begin_array();
    bench::write_rows(json, rows);
    json.end_array().end_object();
    // After each size: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
