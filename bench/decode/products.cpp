// SPDX-License-Identifier: Apache-2.0
// bench_products <model> <rows>[,...] [<out.json> [<about.json>]]: a layer's products of few rows, each
// alone, on rotating weights in a graph: by cuBLASLt's best algorithm of 64, and by our kernel for few rows
// in each way to cut it.
#include <algorithm>
#include <limits>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/cublaslt/gemm.hpp"
#include "kernels/decode/device_memory.hpp"
#include "kernels/decode/hf_model.hpp"
#include "kernels/skinny_gemm_sm90/skinny_gemm.hpp"
#include "src/bench/matrices.hpp"
#include "src/bench/timer.hpp"

namespace {

using namespace tessera;
using bench::check;

constexpr int k_samples = 5;
constexpr std::size_t k_bytes_of_sets = 400u << 20;  ///< many times the L2

struct Product {
  char const* name;
  int columns, depth;
  skinny_gemm::Result result;
};

void measure(JsonWriter& json, Product const& one, int rows, int sms, cudaStream_t stream) {
  auto const bytes = 2 * decode::times(one.columns, one.depth);
  int const sets = static_cast<int>(std::max<std::size_t>(2, k_bytes_of_sets / bytes));
  gpu::DeviceBuffer<unsigned short> weights(decode::times(one.columns, one.depth) *
                                            static_cast<std::size_t>(sets)),
      x(decode::times(rows, one.depth));
  gpu::DeviceBuffer<float> y(decode::times(rows, one.columns));
  gpu::DeviceBuffer<unsigned char> workspace(cublaslt::workspace_bytes);
  bench::fill_random(x.get(), x.size(), bench::ElementType::bf16, 1, 1, stream);
  bench::fill_random(weights.get(), weights.size(), bench::ElementType::bf16, 2, 0.02f, stream);
  auto const of_set = [&](int set) {
    return weights.get() + static_cast<std::size_t>(set) * decode::times(one.columns, one.depth);
  };
  bench::Timer timer(stream, sets, std::max(16, sets));
  bool const wide = one.result == skinny_gemm::Result::added;
  double library = std::numeric_limits<double>::infinity();
  if (auto const gemm =
          cublaslt::LtGemm::make({rows, one.columns, one.depth, gpu::ElementType::bf16, false, wide}))
    for (auto const& algorithm : (*gemm)->algorithms())
      library = std::min(library, timer.quick(
                                      [&](cudaStream_t s, int set) {
                                        return wide ? (*gemm)->run_adding(algorithm, x.get(), of_set(set),
                                                                          y.get(), y.get(), workspace.get(),
                                                                          workspace.size(), s)
                                                    : (*gemm)->run(algorithm, x.get(), of_set(set), y.get(),
                                                                   workspace.get(), workspace.size(), s);
                                      },
                                      k_samples));
  skinny_gemm::Problem const problem{rows, one.columns, one.depth, one.result};
  json.begin_object().member("name", one.name).member("rows", rows).member("columns", one.columns);
  json.member("depth", one.depth).member("library_us", bench::with_digits(library, 4));
  json.key("ours").begin_array();
  std::printf("  %-8s %2d x %6d x %5d  library %7.2f\n", one.name, rows, one.columns, one.depth, library);
  for (auto const& config : skinny_gemm::configs(problem, sms)) {
    double const us = timer.quick(
        [&](cudaStream_t s, int set) {
          return skinny_gemm::launch(problem, config, {x.get(), of_set(set), y.get()}, s);
        },
        k_samples);
    std::printf("     %7.2f  %.2f TB/s  %d columns, split %d, %d stages of %d, %d KB\n", us,
                static_cast<double>(bytes) / us * 1e-6, config.columns, config.split, config.stages,
                config.stage_depth, skinny_gemm::layout_of(problem, config).total / 1024);
    json.begin_object().member("columns", config.columns).member("split", config.split);
    json.member("stages", config.stages).member("stage_depth", config.stage_depth);
    json.member("us", bench::with_digits(us, 4)).end_object();
  }
  json.end_array().end_object();
  std::fflush(stdout);
  check(timer.error(), "a product");
}

}  // namespace

int main(int count, char** arguments) {
  auto const model = decode::model_of(count > 1 ? arguments[1] : "");
  std::vector<int> rows;
  for (char const* at = count > 2 ? arguments[2] : ""; *at != 0;) {
    char* end = nullptr;
    rows.push_back(static_cast<int>(std::strtol(at, &end, 10)));
    at = *end == ',' ? end + 1 : end;
    if (rows.back() < 1 || rows.back() > skinny_gemm::k_most_rows || (*end != ',' && *end != 0)) {
      rows.clear();
      break;
    }
  }
  if (!model || rows.empty()) {
    std::fprintf(stderr, "usage: %s <model> <rows>[,...] [<out.json> [<about.json>]]\n%s\n", arguments[0],
                 model ? "" : to_text(model.error()).c_str());
    return 2;
  }
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  int device = 0, sms = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(skinny_gemm::load(), "loading kernels");
  using skinny_gemm::Result;
  Product const all[] = {
      {"qkv", model->qkv_features(), model->hidden, Result::bf16},
      {"out", model->hidden, model->attended(), Result::added},
      {"gate_up", model->mlp_rows() * model->intermediate, model->hidden,
       model->mlp_rows() == 2 ? Result::gated : Result::bf16},
      {"down", model->hidden, model->intermediate, Result::added},
  };
  JsonWriter json;
  json.begin_object().key("about").raw(bench::about(count > 4 ? arguments[4] : ""));
  json.member("model", model->name).member("unit", "microseconds, medians").key("products").begin_array();
  for (int const one : rows)
    for (auto const& product : all) {
      measure(json, product, one, sms, stream);
      auto whole = json;
      if (count > 3 && !bench::write_file(arguments[3], whole.end_array().end_object().text() + '\n'))
        return 1;
    }
  return 0;
}
