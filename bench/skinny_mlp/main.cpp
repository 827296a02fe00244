// SPDX-License-Identifier: Apache-2.0
// bench_skinny_mlp <out.json> <about.json> <gpt3|llama> [--all] <tokens>...: MLPs for few tokens against
// the floor (reading the weights and nothing else) and cuBLASLt, in one run. <about.json> is copied into the
// record. --all: every configuration of the tuner in the table, not only the best of them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/mlp/peers.hpp"
#include "bench/mlp/timing.hpp"
#include "kernels/skinny_mlp_sm90/device_data.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"

namespace {

using namespace tessera;
using namespace tessera::skinny_sm90;
using bench::check;
using bench::Variant;

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

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

/// Weights one after the other in one allocation, so that the floor reads the same bytes.
struct Set {
  char* weights;
  char* w2;
  void* y;
  float* reference;
};

struct Bench {
  Model model;
  mlp::Shape shape;
  int most;
  std::vector<Set> sets;
  void* x;
  void* h;
  void* pairs;
  float* sums;
  unsigned* workspace;
  StallRecord* stall;
  cudaStream_t stream;

  int first_rows() const { return model.hidden * (model.form == mlp::Form::swiglu ? 2 : 1); }
  std::size_t first_bytes() const { return 2 * area(first_rows(), model.model); }
  std::size_t bytes() const { return first_bytes() + 2 * area(model.hidden, model.model); }
  mlp::Buffers buffers(int set) const {
    Set const& one = sets[static_cast<std::size_t>(set)];
    return {x, one.weights, h, one.w2, one.y};
  }
};

Bench make_bench(Model const& model, int most_tokens, cudaStream_t stream) {
  Bench bench{
      model, {most_tokens, model.model, model.hidden, model.form}, most_tokens, {}, {}, {}, {}, {}, {}, {},
      stream};
  auto const type = bench.shape.type;
  for (int i = 0; i < model.sets; ++i) {
    Set set{};
    set.weights = static_cast<char*>(allocate(bench.bytes()));
    set.w2 = set.weights + bench.first_bytes();
    set.y = allocate(2 * area(most_tokens, model.model));
    set.reference = static_cast<float*>(allocate(4 * area(most_tokens, model.model)));
    fill_random(type, set.weights, bench.first_bytes() / 2, 10 * i + 1,
                static_cast<float>(1 / std::sqrt(model.model)), stream);
    fill_random(type, set.w2, area(model.hidden, model.model), 10 * i + 2,
                static_cast<float>(1 / std::sqrt(model.hidden)), stream);
    bench.sets.push_back(set);
  }
  bench.x = allocate(2 * area(most_tokens, model.model));
  fill_random(type, bench.x, area(most_tokens, model.model), 3, 1, stream);
  bench.h = allocate(2 * area(most_tokens, model.hidden));
  bench.pairs = allocate(2 * area(most_tokens, bench.first_rows()));
  bench.sums = static_cast<float*>(allocate(4 * area(most_tokens, bench.first_rows())));
  bench.workspace = static_cast<unsigned*>(allocate(4 * workspace_words(model.hidden)));
  check(cudaMemset(bench.workspace, 0, 4 * workspace_words(model.hidden)), "cudaMemset");
  bench.stall = static_cast<StallRecord*>(allocate(sizeof(StallRecord)));
  check(cudaMemset(bench.stall, 0, sizeof(StallRecord)), "cudaMemset");
  for (int i = 0; i < model.sets; ++i)
    reference_mlp(bench.shape, bench.buffers(i), bench.sums,
                  bench.sets[static_cast<std::size_t>(i)].reference, stream);
  check(cudaStreamSynchronize(stream), "filling");
  return bench;
}

struct Row {
  Variant variant;
  bool computes = true;
  double error = 0;
  double low = 0, median = 0, high = 0, cool = 0;
};

double worst_error(Bench const& bench, Variant const& variant) {
  double worst = 0;
  for (int i = 0; i < bench.model.sets; ++i) {
    Set const& set = bench.sets[static_cast<std::size_t>(i)];
    poison(bench.h, area(bench.shape.tokens, bench.model.hidden), bench.stream);
    poison(set.y, area(bench.shape.tokens, bench.model.model), bench.stream);
    check(variant.work(bench.stream, i), variant.name.c_str());
    double const error = relative_error(bench.shape.type, set.y, set.reference,
                                        area(bench.shape.tokens, bench.model.model), bench.stream);
    if (!(error <= worst)) worst = error;
  }
  StallRecord record;
  check(cudaMemcpy(&record, bench.stall, sizeof record, cudaMemcpyDeviceToHost), "reading the stall record");
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
      Variant variant;
      variant.work = [&, a](cudaStream_t stream, int set) {
        Set const& one = bench.sets[static_cast<std::size_t>(set)];
        return is_first ? gemm.run(a, bench.x, one.weights, gated ? bench.pairs : bench.h, stream)
                        : gemm.run(a, bench.h, one.w2, one.y, stream);
      };
      double const time = timer.quick(variant, 7);
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
  for (int const blocks : {128, 132}) {
    Row floor;
    floor.variant.name = "floor";
    floor.variant.detail = "reads the weights with " + std::to_string(blocks) + " blocks";
    floor.variant.work = [&, blocks](cudaStream_t stream, int set) {
      return stream_through(bench.sets[static_cast<std::size_t>(set)].weights, bench.bytes(), blocks, stream);
    };
    floor.computes = false;
    rows.push_back(floor);
  }
  Row peer;
  peer.variant.name = "cublasLt";
  peer.variant.detail = "fastest of its candidates for each product";
  bool const gated = bench.model.form == mlp::Form::swiglu;
  peer.variant.work = [&, gated](cudaStream_t stream, int set) {
    Set const& one = bench.sets[static_cast<std::size_t>(set)];
    auto e =
        library.first->run(library.best_first, bench.x, one.weights, gated ? bench.pairs : bench.h, stream);
    if (gated)
      gate(bench.shape.type, bench.pairs, bench.h, area(bench.shape.tokens, bench.model.hidden), stream);
    if (e == cudaSuccess) e = library.second->run(library.best_second, bench.h, one.w2, one.y, stream);
    return e;
  };
  rows.push_back(peer);
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
      call.workspace = bench.workspace;
      call.programmatic = programmatic;
      call.watch = {bench.stall, 200'000'000};
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
    Variant variant;
    variant.work = work_of(plan, true);
    found.push_back({plan, timer.quick(variant, 7)});
  }
  std::sort(found.begin(), found.end(), [](Found const& a, Found const& b) { return a.time < b.time; });
  if (!all && found.size() > 1) found.resize(1);
  for (bool const programmatic : {true, false})
    for (Found const& one : found) {
      if (!programmatic && &one != &found.front()) continue;
      Row row;
      row.variant.name = programmatic ? "tessera pdl" : "tessera";
      row.variant.detail = to_string(one.plan.config);
      row.variant.work = work_of(one.plan, programmatic);
      rows.push_back(row);
    }
  return rows;
}

void measure(Bench const& bench, bench::Timer& timer, std::vector<Row>& rows) {
  std::vector<Variant*> running;
  for (Row& row : rows) {
    if (row.computes) row.error = worst_error(bench, row.variant);
    // The library rounds gate and up before they meet.
    if (!(row.error <= (row.variant.name == "cublasLt" ? 5e-3 : 2e-3))) {
      std::printf("  WRONG %s, %s: error %g\n", row.variant.name.c_str(), row.variant.detail.c_str(),
                  row.error);
      continue;
    }
    if (timer.capture(row.variant)) running.push_back(&row.variant);
  }
  timer.rounds(running, 3);
  for (Variant* variant : running) variant->samples.clear();
  timer.rounds(running, rounds);
  std::vector<std::vector<double>> hot;
  for (Variant* variant : running) {
    hot.push_back(variant->samples);
    variant->samples.clear();
  }
  timer.rounds(running, cool_rounds, rest);
  for (Row& row : rows)
    if (!row.variant.samples.empty()) row.cool = bench::median(row.variant.samples);
  for (std::size_t i = 0; i < running.size(); ++i) running[i]->samples = hot[i];
  for (Row& row : rows) {
    if (row.variant.samples.empty()) continue;
    row.low = mlp::quantile(row.variant.samples, 0.1);
    row.median = bench::median(row.variant.samples);
    row.high = mlp::quantile(row.variant.samples, 0.9);
    timer.release(row.variant);
  }
}

double best(std::vector<Row> const& rows, char const* name) {
  double result = INFINITY;
  for (Row const& row : rows)
    if (row.median > 0 && row.variant.name.rfind(name, 0) == 0) result = std::min(result, row.median);
  return result;
}

void write(std::ostream& out, std::vector<Row> const& rows) {
  bool first = true;
  for (Row const& row : rows) {
    char line[512];
    std::snprintf(
        line, sizeof line,
        "%s\n      {\"variant\": \"%s\", \"detail\": \"%s\", \"us\": %.2f, \"us_p10\": %.2f, \"us_p90\": "
        "%.2f, \"us_cool\": %.2f, \"relative_error\": %.2e}",
        first ? "" : ",", row.variant.name.c_str(), row.variant.detail.c_str(), row.median, row.low, row.high,
        row.cool, row.error);
    out << line;
    first = false;
  }
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
  Bench bench = make_bench(*model, *std::max_element(tokens.begin(), tokens.end()), stream);
  std::stringstream about;
  about << std::ifstream(arguments[2]).rdbuf();
  std::ofstream out(arguments[1]);
  out << "{\n  \"about\": " << (about.str().empty() ? "{}" : about.str()) << ",\n  \"model\": \""
      << model->name << "\", \"model_size\": " << model->model << ", \"hidden_size\": " << model->hidden
      << ", \"weight_bytes\": " << bench.bytes()
      << ",\n  \"unit\": \"microseconds for one MLP; medians; cool: after rests of 8 times the work\", "
         "\"samples\": "
      << rounds << ", \"mlps_per_sample\": " << model->sets << ",\n  \"sizes\": [";
  bool first = true;
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
      std::printf("  %-12s %7.2f (%.2f...%.2f) %.3f  cool %.2f  err %.1e  %s\n", row.variant.name.c_str(),
                  row.median, row.low, row.high, row.median / floor, row.cool, row.error,
                  row.variant.detail.c_str());
    std::fflush(stdout);
    out << (first ? "" : ",") << "\n    {\"tokens\": " << one << ", \"floor_us\": " << floor
        << ", \"floor_tb_per_s\": " << static_cast<double>(bench.bytes()) / floor * 1e-6
        << ", \"tessera_over_floor\": " << ours / floor << ", \"cublasLt_over_tessera\": " << peer / ours
        << ",\n     \"variants\": [";
    write(out, rows);
    out << "]}";
    out.flush();
    first = false;
  }
  out << "\n  ]\n}\n";
  return 0;
}
