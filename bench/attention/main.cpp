// SPDX-License-Identifier: Apache-2.0
// bench_attention <out.json> <about.json> <model> [<tokens>...]: attention of one prompt in a model's size,
// and beside it in tiles of other sizes, in turns, hot and after rests; each result is compared with plain
// arithmetic first. bench/attention/peers.py measures libraries in the same sizes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "kernels/attention_sm90/attention.hpp"
#include "kernels/attention_sm90/plain.hpp"
#include "src/bench/operand_sets.hpp"
#include "src/bench/timer.hpp"

namespace {

using namespace tessera;
using namespace tessera::attention_sm90;
using bench::check;

struct Size {
  char const* name;
  int heads, key_heads, head_size;
  bool causal;
  int window;
  std::vector<int> lengths;  ///< of prompts, one at a time; unless others are named
};
Size const sizes[] = {{"gpt3", 12, 12, 128, false, 0, {512, 1000, 1024, 2048, 4096, 8192}},
                      {"llama", 8, 8, 128, true, 0, {512, 1000, 1024, 2048, 4096, 8192}},
                      {"llama3-8b", 32, 8, 128, true, 0, {512, 1024, 2048, 4096, 8192}},
                      {"llama3.2-1b", 32, 8, 64, true, 0, {512, 2048, 8192}},
                      {"gpt3-6.7b", 32, 32, 80, true, 0, {2048}},
                      {"phi3", 32, 32, 96, true, 0, {2048}},
                      {"gemma", 8, 4, 256, true, 0, {2048, 8192}},
                      {"mistral", 32, 8, 128, true, 1024, {8192}}};
constexpr double k_roof = 790e12;  ///< dense products in bf16, cool (docs/benchmarks.md)
constexpr int k_rounds = 12, k_cool_rounds = 6;
constexpr double k_rest = 4;

Problem problem_of(Size const& size, int length) {
  Problem p;
  p.heads = size.heads;
  p.key_heads = size.key_heads;
  p.head_size = size.head_size;
  p.query_rows = length;
  p.causal = size.causal;
  p.window = size.window;
  return completed(p);
}

double flops(Problem const& p) {
  double pairs = 0;
  Sequence const s{0, p.query_rows, 0, p.key_rows};
  for (int query = 0; query < p.query_rows; ++query) {
    auto const seen = Sight{p.causal, p.window}.of(s, query);
    pairs += seen.end - seen.begin;
  }
  return 4 * pairs * p.heads * p.head_size;
}

struct Row : bench::RowTimes {
  std::string name, detail;
  bench::Timed timed;
  double error = 0;
};

class Bench {
 public:
  Bench(Problem const& p, cudaStream_t stream) : p_(p), stream_(stream) {
    auto const rows = static_cast<std::size_t>(p.query_rows), size = static_cast<std::size_t>(p.head_size);
    elements_ = rows * size * static_cast<std::size_t>(p.heads);
    auto const keys = 2 * rows * size * static_cast<std::size_t>(p.key_heads);
    auto const bytes = 2 * elements_;
    check(sets_.make({{"q", bytes, bench::random_numbers(p.type, 1, 1)},
                      {"k", keys, bench::random_numbers(p.type, 2, 1)},
                      {"v", keys, bench::random_numbers(p.type, 3, 1)},
                      {"out", bytes}},
                     bench::sets_beyond_l2(2 * bytes + 2 * keys), stream),
          "memory");
    check(reference_.make({{"exact", 4 * elements_}, {"rounded", 4 * elements_}}, 1, stream), "memory");
    for (auto const* name : {"exact", "rounded"})
      check(plain_attention(p, sets_.at("q"), sets_.at("k"), sets_.at("v"), reference_.as<float>(name),
                            std::strcmp(name, "exact") == 0 ? Rounding::none : Rounding::each, stream),
            "plain arithmetic");
    check(cudaStreamSynchronize(stream), "plain arithmetic");
  }

  int sets() const { return sets_.count(); }
  Call call(int set, int tile_queries) const {
    Call call;
    call.tile_queries = tile_queries;
    call.problem = p_;
    call.q = sets_.at("q", set);
    call.k = sets_.at("k", set);
    call.v = sets_.at("v", set);
    call.out = sets_.at("out", set);
    return call;
  }
  double error_of(Row const& row) const {
    bench::poison(sets_.at("out"), elements_, stream_);
    check(row.timed.work(stream_, 0), row.name.c_str());
    return bench::relative_error(sets_.at("out"), reference_.as<float>("exact"), elements_, p_.type, stream_);
  }

 private:
  Problem p_;
  cudaStream_t stream_;
  std::size_t elements_ = 0;
  bench::OperandSets sets_, reference_;
};

cudaError_t error_of(Expected<void> const& launched) {
  if (launched) return cudaSuccess;
  std::fputs(to_text(launched.error()).c_str(), stderr);
  return cudaErrorInvalidValue;
}

std::vector<Row> rows_of(Bench const& bench, Problem const& p) {
  std::vector<Row> rows;
  auto const add = [&](char const* name, int tile_queries) {
    auto const launched = [&bench, tile_queries](cudaStream_t stream, int set) {
      return error_of(launch(bench.call(set, tile_queries), stream));
    };
    rows.push_back({{}, name, kernel_for(p, tile_queries)->name, {launched}});
  };
  int const usual = k_usual_queries;
  add("attention", usual);
  for (int const queries : tile_choices(p))
    if (queries != usual) add("other tiles", queries);
  return rows;
}

void measure(Size const& size, int length, JsonWriter& json, cudaStream_t stream) {
  auto const p = problem_of(size, length);
  Bench const bench(p, stream);
  auto const work = flops(p);
  int const per_graph = std::clamp(static_cast<int>(4e11 / work), 2, 40);
  bench::Timer timer(stream, bench.sets(), per_graph);
  auto rows = rows_of(bench, p);
  std::vector<bench::Timed*> running;
  for (auto& row : rows) {
    row.error = bench.error_of(row);
    // What is wrong is not timed.
    if (row.error < 0.01 && timer.capture(row.timed)) running.push_back(&row.timed);
  }
  bench::time_rows(timer, running, rows, k_rounds, k_cool_rounds, k_rest);
  json.begin_object().member("tokens", length).member("flops", work).key("variants").begin_array();
  bench::write_rows(json, rows);
  json.end_array().end_object();
  for (auto const& row : rows)
    std::printf("%-12s %5d  %-10s %-20s %8.2f us  %6.1f TFLOP/s (%4.1f %%)  cool %8.2f  error %.2e\n",
                size.name, length, row.name.c_str(), row.detail.c_str(), row.median,
                row.median > 0 ? work / row.median / 1e6 : 0,
                row.median > 0 ? 100 * work / (row.median * 1e-6) / k_roof : 0, row.cool, row.error);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Size const* size = nullptr;
  for (Size const& one : sizes)
    if (argc > 3 && std::strcmp(one.name, argv[3]) == 0) size = &one;
  std::vector<int> lengths;
  for (int i = 4; i < argc; ++i) lengths.push_back(std::atoi(argv[i]));
  if (size == nullptr || std::any_of(lengths.begin(), lengths.end(), [](int n) { return n < 1; })) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> <model> [<tokens>...], the models:", argv[0]);
    for (Size const& one : sizes) std::fprintf(stderr, " %s", one.name);
    std::fputs("\n", stderr);
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(argv[2])).member("model", size->name);
  json.member("heads", size->heads).member("key_heads", size->key_heads).member("head_size", size->head_size);
  json.member("causal", size->causal).member("window", size->window);
  json.member("unit", "microseconds; medians; cool: after rests of 4 times the work");
  json.member("samples", k_rounds).key("sizes").begin_array();
  for (int const length : lengths.empty() ? size->lengths : lengths) {
    measure(*size, length, json, stream);
    // After each size: what was measured is not lost if something stops the rest.
    auto whole = json;
    if (!bench::write_file(argv[1], whole.end_array().end_object().text() + '\n')) return 1;
  }
  return 0;
}
