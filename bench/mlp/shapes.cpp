// SPDX-License-Identifier: Apache-2.0
// bench_gemm_shapes <gpt3|llama> <tokens>...: each GEMM of an MLP alone, in every kernel, order of tiles and
// grid, and in cuBLASLt: which shapes earn a place. Checks every kernel first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "bench/common/program.hpp"
#include "bench/mlp/peers.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "src/bench/operand_sets.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;
using namespace tessera::gemm_sm90;

constexpr int sets = 4;
constexpr int multiprocessors = 132;

struct Gemm {
  char const* model;
  int number;
  int columns;  // of b
  int depth;
  Activation activation;
};

constexpr Gemm gemms[] = {{"gpt3", 1, 6144, 12288, Activation::gelu},
                          {"gpt3", 2, 12288, 6144, Activation::none},
                          {"llama", 1, 5504, 8192, Activation::swiglu},
                          {"llama", 2, 8192, 2752, Activation::none}};

struct Memory {
  OperandSets rotating;  // a, b, d
  OperandSets shared;    // wide (cuBLAS's sums before the gate), reference, sums
  SplitBuffers split;

  Memory(Gemm const& gemm, int tokens, cudaStream_t stream) {
    std::size_t const rows = static_cast<std::size_t>(tokens);
    std::size_t const results = rows * gemm.columns, weights = std::size_t(gemm.columns) * gemm.depth;
    auto const random = [&](unsigned long long seed, double deviation) {
      return random_numbers(ElementType::bf16, seed, deviation);
    };
    SplitSizes most;
    for (Kernel const& kernel : gemm_sm90::kernels()) {
      SplitSizes const sizes = split_sizes(kernel.info, {tokens, gemm.columns, gemm.depth});
      most = {std::max(most.sum_bytes, sizes.sum_bytes), std::max(most.arrivals, sizes.arrivals)};
    }
    check(rotating.make({{"a", rows * gemm.depth * 2, random(10, 1)},
                         {"b", weights * 2, random(20, 1 / std::sqrt(gemm.depth))},
                         {"d", results * 2}},
                        sets, stream),
          "operands");
    // The counts are shared by all kernels: each launch leaves them even.
    check(shared.make({{"wide", results * 2},
                       {"reference", results * 4},
                       {"sums", results * 4},
                       {"split sums", most.sum_bytes + 16},
                       {"arrivals", sizeof(unsigned) * static_cast<std::size_t>(most.arrivals + 1), zeros()}},
                      1, stream),
          "memory");
    split = {shared.as<float>("split sums"), shared.as<unsigned>("arrivals")};
  }
  void* a(int set) const { return rotating.at("a", set); }
  void* b(int set) const { return rotating.at("b", set); }
  void* d(int set) const { return rotating.at("d", set); }
  void* wide() const { return shared.at("wide"); }
  float* reference() const { return shared.as<float>("reference"); }
};

Call call_of(Gemm const& gemm, Memory const& memory, int tokens, int set) {
  Call call;
  call.problem = {tokens,        gemm.columns,  gemm.depth,     memory.a(set),
                  memory.b(set), memory.d(set), gemm.activation};
  call.split = memory.split;
  return call;
}

bool right(Kernel const& kernel, Gemm const& gemm, Memory const& memory, int tokens, cudaStream_t stream) {
  auto const call = call_of(gemm, memory, tokens, 0);
  std::size_t const count = std::size_t(tokens) * call.problem.output_columns();
  poison(memory.d(0), count, stream);
  cudaError_t const error = kernel.launch(call, stream);
  double const difference = relative_error(memory.d(0), memory.reference(), count, ElementType::bf16, stream);
  bool const ok = error == cudaSuccess && difference <= 2e-3;
  if (!ok || tokens < 200)
    std::printf("%s %s gemm %d, %d tokens: %s, error %.3g%s\n", kernel.info.name, gemm.model, gemm.number,
                tokens, cudaGetErrorString(error), difference, ok ? "" : " WRONG");
  return ok;
}

struct Variant {
  std::string name, detail;
  Timed timed;
};

// For a profiler: each kernel, and each of cuBLASLt's, once.
void once(Gemm const& gemm, int tokens, std::vector<Kernel const*> const& kernels, cudaStream_t stream) {
  Memory const memory(gemm, tokens, stream);
  CublasGemm const cublas(tokens, gemm.columns, gemm.depth, gemm.activation == Activation::gelu);
  for (Kernel const* kernel : kernels)
    for (int const blocks : {0, multiprocessors}) {
      auto call = call_of(gemm, memory, tokens, 0);
      call.band = 8;
      call.most_blocks = blocks;
      check(kernel->launch(call, stream), kernel->info.name);
    }
  for (int i = 0; i < std::min(6, cublas.algorithms()); ++i)
    cublas.run(i, memory.a(0), memory.b(0), memory.wide(), stream);
  check(cudaStreamSynchronize(stream), "running");
}

void measure(Gemm const& gemm, int tokens, std::vector<Kernel const*> const& kernels, cudaStream_t stream) {
  Memory const memory(gemm, tokens, stream);
  Timer timer(stream, sets, 8);
  std::vector<std::pair<double, Variant>> all;
  auto add = [&](std::string const& name, std::string const& detail,
                 std::function<cudaError_t(cudaStream_t, int)> const& work) {
    all.emplace_back(timer.quick(work, 2), Variant{name, detail, {work}});
    check(timer.error(), "measuring");
  };
  for (Kernel const* kernel : kernels) {
    for (int const band : {1, 0, 4, 8})
      for (int const blocks : {0, multiprocessors}) {
        if (blocks == 0 && band > 1) continue;
        add(kernel->info.name,
            (band == 0 ? std::string("columns") : "bands of " + std::to_string(band)) +
                (blocks != 0 ? " persistent" : ""),
            [&, kernel, band, blocks](cudaStream_t on, int set) {
              auto call = call_of(gemm, memory, tokens, set);
              call.band = band;
              call.most_blocks = blocks;
              return kernel->launch(call, on);
            });
      }
  }
  bool const gated = gemm.activation == Activation::swiglu;
  CublasGemm const cublas(tokens, gemm.columns, gemm.depth, gemm.activation == Activation::gelu);
  for (int i = 0; i < cublas.algorithms(); ++i) {
    add("cublasLt", cublas.describe(i), [&, i](cudaStream_t on, int set) {
      void* const d = gated ? memory.wide() : memory.d(set);
      cudaError_t const error = cublas.run(i, memory.a(set), memory.b(set), d, on);
      if (error != cudaSuccess || !gated) return error;
      return kernels::swiglu(d, memory.d(set), tokens, gemm.columns / 2, ElementType::bf16, on);
    });
  }
  std::sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  // The best of each kernel, then the best eight and cuBLASLt against each other.
  std::map<std::string, int> seen;
  std::vector<Variant*> finals;
  for (auto& one : all) {
    int& count = seen[one.second.name];
    if (++count > 1 && !(one.second.name == "cublasLt" && count == 2)) continue;
    if (finals.size() >= 10 && one.second.name != "cublasLt") continue;
    if (timer.capture(one.second.timed)) finals.push_back(&one.second);
  }
  std::vector<Timed*> timed;
  for (Variant* one : finals) timed.push_back(&one->timed);
  timer.hot_rounds(timed, 12);
  timer.cool_rounds(timed, 3);
  check(timer.error(), "measuring");
  double const flops = 2.0 * tokens * gemm.columns * gemm.depth;
  std::printf("%s gemm %d, %d tokens\n", gemm.model, gemm.number, tokens);
  for (Variant* one : finals) {
    double const hot = median(one->timed.hot), cool = median(one->timed.cool);
    std::printf("  %-26s %-28s hot %7.2f (%4.0f TF) cool %7.2f (%4.0f TF)\n", one->name.c_str(),
                one->detail.c_str(), hot, flops / hot * 1e-6, cool, flops / cool * 1e-6);
    timer.release(one->timed);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s <gpt3|llama> <tokens>...\n", arguments[0]);
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (Gemm const& gemm : gemms) {
    if (std::strcmp(gemm.model, arguments[1]) != 0) continue;
    bool const gated = gemm.activation == Activation::swiglu;
    if (std::getenv("SHAPES_ONCE") != nullptr) {
      for (Kernel const* kernel : kernels_for(ElementType::bf16, gated))
        if (kernel->function != nullptr) check(prepare(*kernel), kernel->info.name);
      once(gemm, std::atoi(arguments[2]), kernels_for(ElementType::bf16, gated), stream);
      continue;
    }
    std::vector<Kernel const*> kernels;
    for (int const tokens : {150, 700}) {
      Memory const memory(gemm, tokens, stream);
      // Without an activation the sums are the reference.
      auto* const sums =
          gemm.activation == Activation::none ? memory.reference() : memory.shared.as<float>("sums");
      reference_gemm(memory.a(0), memory.b(0), sums, tokens, gemm.columns, gemm.depth, ElementType::bf16,
                     stream);
      if (gemm.activation != Activation::none)
        reference_activation(sums, gated ? ReferenceActivation::swiglu : ReferenceActivation::gelu,
                             std::size_t(tokens) * gemm.columns / (gated ? 2 : 1), memory.reference(),
                             nullptr, ElementType::bf16, stream);
      std::vector<Kernel const*> good;
      for (Kernel const* kernel : tokens == 150 ? kernels_for(ElementType::bf16, gated) : kernels) {
        KernelInfo info;
        if (kernel->function != nullptr) check(prepare(*kernel, &info), kernel->info.name);
        if (right(*kernel, gemm, memory, tokens, stream)) good.push_back(kernel);
        if (tokens == 150 && gemm.number == 1)
          std::printf("  %d stages, %d bytes, %d registers\n", info.stages, info.shared_bytes,
                      info.registers);
      }
      kernels = good;
    }
    for (int i = 2; i < count; ++i) measure(gemm, std::atoi(arguments[i]), kernels, stream);
  }
  return 0;
}
