// SPDX-License-Identifier: Apache-2.0
// bench_skinny_mlp <out.json> <about.json> <gpt3|llama> [--all] <tokens>...: MLPs for few tokens against
// the floor (reading the weights and nothing else) and cuBLASLt, in one run. <about.json> is copied into the
// record. --all: every configuration of the tuner in the table, not only the best of them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "bench/mlp/peers.hpp"
#include "bench/skinny_mlp/floor.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "src/bench/operand_sets.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::skinny_sm90;
using bench::check;
using bench::OperandSets;

struct Model {
  char const* name;
  int model;
  int hidden;
  mlp::Form form;
  int sets;  // of weights, several times the L2 cache; a graph runs one MLP on each
};
constexpr Model models[] = {{"gpt3", 12288, 6144, mlp::Form::gelu, 4},
                            {"llama", 8192, 2752, mlp::Form::swiglu, 8}};
constexpr int rounds = 60;
constexpr int cool_rounds = 20;
constexpr double rest = 8;  // as long as the work

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

struct Bench {
  Model model;
  mlp::Shape shape;
  OperandSets sets;    ///< weights (w2 behind w1, so that the floor reads the same bytes), y, its reference
  OperandSets shared;  ///< x, h, pairs of gate and up, sums, and what a launch counts in
  cudaStream_t stream;

  Bench(Model const& of, int most_tokens, cudaStream_t on)
      : model(of), shape{most_tokens, of.model, of.hidden, of.form}, stream(on) {
    auto const fill_weights = [this](void* memory, std::size_t, int set, cudaStream_t) {
      auto const seed = static_cast<unsigned long long>(10 * set);
      auto* const w2 = static_cast<char*>(memory) + first_bytes();
      bench::fill_random(memory, first_bytes() / 2, shape.type, seed + 1, 1 / std::sqrt(float(model.model)),
                         stream);
      bench::fill_random(w2, area(model.hidden, model.model), shape.type, seed + 2,
                         1 / std::sqrt(float(model.hidden)), stream);
    };
    std::size_t const y = area(most_tokens, model.model), wide = area(most_tokens, first_rows());
    check(sets.make({{"weights", bytes(), fill_weights}, {"y", 2 * y}, {"reference", 4 * y}}, model.sets,
                    stream),
          "weights");
    check(shared.make({{"x", 2 * y, bench::random_numbers(shape.type, 3, 1)},
                       {"h", 2 * area(most_tokens, model.hidden)},
                       {"pairs", 2 * wide},
                       {"sums", 4 * wide},
                       {"workspace", 4 * workspace_words(model.hidden), bench::zeros()},
                       {"stall", sizeof(StallRecord), bench::zeros()}},
                      1, stream),
          "memory");
    for (int i = 0; i < model.sets; ++i)
      reference_mlp(shape, buffers(i), shared.as<float>("sums"), nullptr, sets.as<float>("reference", i),
                    false, stream);
    check(cudaStreamSynchronize(stream), "filling");
  }

  int first_rows() const { return model.hidden * (model.form == mlp::Form::swiglu ? 2 : 1); }
  std::size_t first_bytes() const { return 2 * area(first_rows(), model.model); }
  std::size_t bytes() const { return first_bytes() + 2 * area(model.hidden, model.model); }
  mlp::Buffers buffers(int set) const {
    auto* const weights = sets.as<char>("weights", set);
    return {shared.at("x"), weights, shared.at("h"), weights + first_bytes(), sets.at("y", set)};
  }
  /// Where a library without a gated epilogue leaves its first product.
  void* first_result() const { return shared.at(model.form == mlp::Form::swiglu ? "pairs" : "h"); }
};

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  bool computes = true;
  double error = 0;
};

double worst_error(Bench const& bench, Row const& row) {
  auto const& shape = bench.shape;
  std::size_t const y_size = area(shape.tokens, shape.model);
  double worst = 0;
  for (int i = 0; i < bench.model.sets; ++i) {
    auto const buffers = bench.buffers(i);
    bench::poison(buffers.h, area(shape.tokens, shape.hidden), bench.stream);
    bench::poison(buffers.y, y_size, bench.stream);
    check(row.timed.work(bench.stream, i), row.name.c_str());
    double const error = bench::relative_error(buffers.y, bench.sets.as<float>("reference", i), y_size,
                                               shape.type, bench.stream);
    if (!(error <= worst)) worst = error;
  }
  StallRecord record;
  check(cudaMemcpy(&record, bench.shared.at("stall"), sizeof record, cudaMemcpyDeviceToHost),
        "reading the stall record");
  return record.state == 0 ? worst : NAN;
}

/// cuBLASLt with the fastest pair of its candidates, each alone on rotating weights.
struct Library {
  std::unique_ptr<bench::CublasGemm> first, second;
  int best_first = 0, best_second = 0;
};

Library tune_library(Bench const& bench, bench::Timer& timer) {
  Library library;
  bool const gated = bench.model.form == mlp::Form::swiglu;
  int const tokens = bench.shape.tokens;
  library.first = std::make_unique<bench::CublasGemm>(tokens, bench.first_rows(), bench.model.model, !gated);
  library.second = std::make_unique<bench::CublasGemm>(tokens, bench.model.model, bench.model.hidden, false);
  auto best = [&](bench::CublasGemm const& gemm, bool is_first) {
    int choice = 0;
    double least = INFINITY;
    for (int a = 0; a < gemm.algorithms(); ++a) {
      auto const work = [&, a](cudaStream_t stream, int set) {
        auto const b = bench.buffers(set);
        return is_first ? gemm.run(a, b.x, b.w1, bench.first_result(), stream)
                        : gemm.run(a, b.h, b.w2, b.y, stream);
      };
      double const time = timer.quick(work, 7);
      if (time < least) least = time, choice = a;
    }
    return choice;
  };
  library.best_first = best(*library.first, true);
  library.best_second = best(*library.second, false);
  return library;
}

std::vector<Row> rows_of(Bench const& bench, Library const& library, bool all, bench::Timer& timer) {
  std::vector<Row> rows;
  auto const add = [&](std::string name, std::string detail,
                       std::function<cudaError_t(cudaStream_t, int)> work) -> Row& {
    return rows.emplace_back(Row{{}, std::move(name), std::move(detail), {std::move(work)}});
  };
  for (int const blocks : {128, 132})
    add("floor", "reads the weights with " + std::to_string(blocks) + " blocks",
        [&, blocks](cudaStream_t stream, int set) {
          return bench::stream_through(bench.sets.at("weights", set), bench.bytes(), blocks, stream);
        })
        .computes = false;
  bool const gated = bench.model.form == mlp::Form::swiglu;
  add("cublasLt", "fastest of its candidates for each product", [&, gated](cudaStream_t stream, int set) {
    auto const b = bench.buffers(set);
    auto const& shape = bench.shape;
    auto error = library.first->run(library.best_first, b.x, b.w1, bench.first_result(), stream);
    if (gated && error == cudaSuccess)
      error = kernels::swiglu(bench.first_result(), b.h, shape.tokens, shape.hidden, shape.type, stream);
    return error != cudaSuccess ? error : library.second->run(library.best_second, b.h, b.w2, b.y, stream);
  });
  // The best of the configurations by a few samples, then both of its ways to start.
  struct Found {
    Plan plan;
    double time;
  };
  std::vector<Found> found;
  auto work_of = [&](Plan const& plan, bool programmatic) {
    return [&bench, plan, programmatic](cudaStream_t stream, int set) {
      Call call;
      call.buffers = bench.buffers(set);
      call.workspace = bench.shared.as<unsigned>("workspace");
      call.programmatic = programmatic;
      call.watch = {bench.shared.as<StallRecord>("stall"), 200'000'000};
      return launch(plan, call, stream);
    };
  };
  for (Config const& config : configs(bench.shape)) {
    Plan plan;
    if (auto const e = prepare(bench.shape, config, &plan); e != cudaSuccess) {
      std::printf("  not here: %s\n", to_string(config).c_str());
      cudaGetLastError();
      continue;
    }
    found.push_back({plan, timer.quick(work_of(plan, true), 7)});
  }
  std::sort(found.begin(), found.end(), [](Found const& a, Found const& b) { return a.time < b.time; });
  if (!all && found.size() > 1) found.resize(1);
  for (bool const programmatic : {true, false})
    for (Found const& one : found) {
      if (!programmatic && &one != &found.front()) continue;
      add(programmatic ? "tessera pdl" : "tessera", to_string(one.plan.config),
          work_of(one.plan, programmatic));
    }
  return rows;
}

void measure(Bench const& bench, bench::Timer& timer, std::vector<Row>& rows) {
  std::vector<bench::Timed*> running;
  for (Row& row : rows) {
    if (row.computes) row.error = worst_error(bench, row);
    // The library rounds gate and up before they meet.
    if (!(row.error <= (row.name == "cublasLt" ? 5e-3 : 2e-3))) {
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
    if (row.median > 0 && row.name.rfind(name, 0) == 0) result = std::min(result, row.median);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<int> tokens;
  bool all = false;
  Model const* model = nullptr;
  for (int i = 3; i < count; ++i) {
    if (std::strcmp(arguments[i], "--all") == 0) all = true;
    for (Model const& one : models)
      if (std::strcmp(one.name, arguments[i]) == 0) model = &one;
    if (int const number = std::atoi(arguments[i]); number >= 1 && number <= most_tokens)
      tokens.push_back(number);
  }
  if (model == nullptr || tokens.empty()) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> <gpt3|llama> [--all] <tokens>...\n",
                 arguments[0]);
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  bench::Timer timer(stream, model->sets, model->sets);
  Bench bench(*model, *std::max_element(tokens.begin(), tokens.end()), stream);
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(arguments[2])).member("model", model->name);
  json.member("model_size", model->model).member("hidden_size", model->hidden);
  json.member("weight_bytes", bench.bytes());
  json.member("unit", "microseconds for one MLP; medians; cool: after rests of 8 times the work");
  json.member("samples", rounds).member("mlps_per_sample", model->sets).key("sizes").begin_array();
  for (int const one : tokens) {
    bench.shape.tokens = one;
    Library const library = tune_library(bench, timer);
    std::vector<Row> rows = rows_of(bench, library, all, timer);
    measure(bench, timer, rows);
    double const floor = best(rows, "floor");
    double const peer = best(rows, "cublasLt");
    double const ours = best(rows, "tessera");
    std::printf(
        "%-5s T=%-3d floor %.1f us (%.2f TB/s), cublasLt %.1f (%.3f), tessera %.1f (%.3f), peer/ours %.3f\n",
        model->name, one, floor, static_cast<double>(bench.bytes()) / floor * 1e-6, peer, peer / floor, ours,
        ours / floor, peer / ours);
    for (Row const& row : rows)
      std::printf("  %-12s %7.2f (%.2f...%.2f) %.3f  cool %.2f  err %.1e  %s\n", row.name.c_str(), row.median,
                  row.low, row.high, row.median / floor, row.cool, row.error, row.detail.c_str());
    std::fflush(stdout);
    json.begin_object().member("tokens", one).member("floor_us", bench::with_digits(floor, 6));
    json.member("floor_tb_per_s", bench::with_digits(static_cast<double>(bench.bytes()) / floor * 1e-6, 6));
    json.member("tessera_over_floor", bench::with_digits(ours / floor, 6));
    json.member("cublasLt_over_tessera", bench::with_digits(peer / ours, 6)).key("variants").begin_array();
    bench::write_rows(json, rows);
    json.end_array().end_object();
    // After each size: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
