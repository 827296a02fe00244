// SPDX-License-Identifier: Apache-2.0
// bench_mlp <out.json> <about.json> <model> <tokens>...: the two GEMMs of an MLP with every mechanism and
// against cuBLASLt and CUTLASS, in one run. <about.json> is an object that is copied into the record.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "bench/mlp/candidates.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;

constexpr Model models[] = {{"gpt3", 12288, 6144}, {"llama", 8192, 2752}};

constexpr int hot_rounds = 25;
constexpr int cool_rounds = 5;
constexpr double rest = 8;  // times as long as the work, when cool

// Seen on one H200: 790 TFLOP/s for a large cuBLAS product, 4.3 TB/s for a copy.
constexpr double peak_flops = 790e12;
constexpr double peak_bytes = 4.3e12;

double floor_us(Model const& model, int tokens) {
  double const flops = 2.0 * tokens * model.model * model.hidden;
  double const bytes =
      2.0 * (1.0 * tokens * model.model + 1.0 * model.model * model.hidden + 1.0 * tokens * model.hidden);
  return 2e6 * std::max(flops / peak_flops, bytes / peak_bytes);
}

double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
}

struct Row {
  std::string name;
  std::string detail;
  double hot = 0, low = 0, high = 0, cool = 0, error = 0;
};

// Checks, captures, measures and releases.
std::vector<Row> measure(Arena const& arena, Timer& timer, std::vector<Variant>& variants,
                         cudaStream_t stream) {
  std::vector<Row> rows;
  std::vector<Variant*> running;
  for (Variant& variant : variants) {
    Row row{variant.name, variant.detail};
    row.error = verify(arena, variant, stream);
    bool const right = row.error <= 2e-3;
    if (!right) std::printf("WRONG %s %s: %g\n", row.name.c_str(), row.detail.c_str(), row.error);
    if (!right || !timer.capture(variant)) continue;
    rows.push_back(row);
    running.push_back(&variant);
  }
  timer.rounds(running, 2);
  for (Variant* variant : running) variant->samples.clear();
  timer.rounds(running, hot_rounds);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].hot = median(running[i]->samples);
    rows[i].low = quantile(running[i]->samples, 0.1);
    rows[i].high = quantile(running[i]->samples, 0.9);
    running[i]->samples.clear();
  }
  timer.rounds(running, cool_rounds, rest);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cool = median(running[i]->samples);
    timer.release(*running[i]);
  }
  return rows;
}

void write_rows(std::ostream& out, std::vector<Row> const& rows) {
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row const& row = rows[i];
    char line[640];
    std::snprintf(
        line, sizeof line,
        "%s\n      {\"variant\": \"%s\", \"kernels\": \"%s\", \"hot_us\": %.2f, \"hot_us_p10\": %.2f, "
        "\"hot_us_p90\": %.2f, \"cool_us\": %.2f, \"relative_error\": %.2e}",
        i == 0 ? "" : ",", row.name.c_str(), row.detail.c_str(), row.hot, row.low, row.high, row.cool,
        row.error);
    out << line;
  }
  out << "]";
}

bool ours(Row const& row) { return row.name.rfind("tessera", 0) == 0; }

double best(std::vector<Row> const& rows, bool tessera, double Row::*what, char const* name = nullptr) {
  double result = INFINITY;
  for (Row const& row : rows)
    if (ours(row) == tessera && (name == nullptr || row.name == name)) result = std::min(result, row.*what);
  return result;
}

double best_of(std::vector<Row> const& rows, char const* name) {
  double result = INFINITY;
  for (Row const& row : rows)
    if (row.name == name) result = std::min(result, row.hot);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> <gpt3|llama> <tokens>...\n", arguments[0]);
    return 2;
  }
  Model const* model = nullptr;
  for (Model const& one : models)
    if (std::strcmp(one.name, arguments[3]) == 0) model = &one;
  std::vector<int> tokens;
  for (int i = 4; i < count; ++i) tokens.push_back(std::atoi(arguments[i]));
  if (model == nullptr || *std::min_element(tokens.begin(), tokens.end()) <= 0) return 2;

  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (auto const& kernel : gemm_sm90::kernels()) check(gemm_sm90::prepare(kernel), kernel.info.name);
  // Long enough that the gap between graphs does not count.
  int const per_graph = model->hidden > 4096 ? 4 : 8;
  Timer timer(stream, sets, per_graph);
  Arena arena = make_arena(*model, *std::max_element(tokens.begin(), tokens.end()), stream);

  std::stringstream about;
  about << std::ifstream(arguments[2]).rdbuf();
  std::ofstream out(arguments[1]);
  out << "{\n  \"about\": " << (about.str().empty() ? "{}" : about.str()) << ",\n  \"model\": \""
      << model->name << "\", \"model_size\": " << model->model << ", \"hidden_size\": " << model->hidden
      << ",\n  \"unit\": \"microseconds for one MLP; medians\", \"hot_samples\": " << hot_rounds
      << ", \"cool_samples\": " << cool_rounds << ", \"mlps_per_sample\": " << per_graph
      << ",\n  \"sizes\": [";
  std::printf(
      "%-6s %5s %7s | %8s %8s %8s | %8s %8s %8s | %6s %6s | same tiles, hot (cool): 256 wide, 192 wide\n",
      "model", "T", "floor", "cublasLt", "cutlass", "c+pdl", "t pdl", "t row", "t tile", "hot", "cool");
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    start_size(arena, tokens[t], stream);
    Finalists finalists = find_finalists(arena, timer);
    auto const rows = measure(arena, timer, finalists.variants, stream);
    double const floor = floor_us(*model, tokens[t]);
    double const hot = best(rows, false, &Row::hot) / best(rows, true, &Row::hot);
    double const cool = best(rows, false, &Row::cool) / best(rows, true, &Row::cool);
    out << (t == 0 ? "" : ",") << "\n    {\"tokens\": " << tokens[t] << ", \"floor_us\": " << floor
        << ", \"variants_tried\": " << finalists.tried
        << ",\n     \"best_baseline_over_best_tessera_hot\": " << hot
        << ", \"best_baseline_over_best_tessera_cool\": " << cool << ",\n     \"variants\": ";
    write_rows(out, rows);
    std::printf("%-6s %5d %7.1f | %8.1f %8.1f %8.1f | %8.1f %8.1f %8.1f | %6.3f %6.3f |", model->name,
                tokens[t], floor, best_of(rows, "cublasLt"), best_of(rows, "cutlass"),
                best_of(rows, "cutlass+pdl"), best_of(rows, "tessera pdl"), best_of(rows, "tessera row"),
                best_of(rows, "tessera tile"), hot, cool);
    out << ",\n     \"cutlass_alone\": [";
    for (std::size_t i = 0; i < finalists.alone.size(); ++i) {
      auto const& one = finalists.alone[i];
      out << (i == 0 ? "" : ", ") << "[" << one.gemm << ", \"" << one.kernel << "\", " << one.time << "]";
    }
    out << "],\n     \"same_tiles\": {";
    bool first_shape = true;
    for (char const* shape : {"128x256x64_2x1", "128x192x64_2x1"}) {
      auto variants = same_tiles(arena, timer, shape);
      auto const same = measure(arena, timer, variants, stream);
      out << (first_shape ? "" : ", ") << "\"" << shape << "\": ";
      first_shape = false;
      write_rows(out, same);
      std::printf(" %.1f/%.1f=%.3f (%.3f)", best(same, false, &Row::hot),
                  best(same, true, &Row::hot, "tessera"),
                  best(same, false, &Row::hot) / best(same, true, &Row::hot, "tessera"),
                  best(same, false, &Row::cool) / best(same, true, &Row::cool, "tessera"));
    }
    out << "}}";
    out.flush();
    std::printf("\n");
    std::fflush(stdout);
  }
  out << "\n  ]\n}\n";
  release(arena);
  return 0;
}
