// SPDX-License-Identifier: Apache-2.0
// bench_gemm_shapes <gpt3|llama> <tokens>...: each GEMM of an MLP alone, in every kernel, order of tiles and
// grid, and in cuBLASLt: which shapes earn a place. Checks every kernel first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "bench/mlp/peers.hpp"
#include "bench/mlp/timing.hpp"
#include "kernels/gemm_sm90/device_data.hpp"
#include "kernels/mlp/gated.hpp"

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
  void* a[sets];
  void* b[sets];
  void* d[sets];
  void* wide;  // cuBLAS's sums before the gate
  float* reference;
  float* sums;
  SplitBuffers split;
};

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

Memory make_memory(Gemm const& gemm, int tokens, cudaStream_t stream) {
  Memory memory{};
  std::size_t const rows = static_cast<std::size_t>(tokens);
  for (int i = 0; i < sets; ++i) {
    memory.a[i] = allocate(rows * gemm.depth * 2);
    memory.b[i] = allocate(std::size_t(gemm.columns) * gemm.depth * 2);
    memory.d[i] = allocate(rows * gemm.columns * 2);
    fill_random(memory.a[i], rows * gemm.depth, 10 + i, 1, stream);
    fill_random(memory.b[i], std::size_t(gemm.columns) * gemm.depth, 20 + i, 1 / std::sqrt(float(gemm.depth)),
                stream);
  }
  memory.wide = allocate(rows * gemm.columns * 2);
  memory.reference = static_cast<float*>(allocate(rows * gemm.columns * 4));
  memory.sums = static_cast<float*>(allocate(rows * gemm.columns * 4));
  SplitSizes most;
  for (Kernel const& kernel : kernels()) {
    SplitSizes const sizes = split_sizes(kernel.info, {tokens, gemm.columns, gemm.depth});
    most = {std::max(most.sum_bytes, sizes.sum_bytes), std::max(most.arrivals, sizes.arrivals)};
  }
  std::size_t const counts = sizeof(unsigned) * static_cast<std::size_t>(most.arrivals + 1);
  memory.split = {static_cast<float*>(allocate(most.sum_bytes + 16)),
                  static_cast<unsigned*>(allocate(counts))};
  // Shared by all kernels: each launch leaves them even.
  check(cudaMemsetAsync(memory.split.arrivals, 0, counts, stream), "zeroing");
  return memory;
}

void release(Memory& memory) {
  for (int i = 0; i < sets; ++i)
    for (void* one : {memory.a[i], memory.b[i], memory.d[i]}) cudaFree(one);
  for (void* one : {memory.wide, static_cast<void*>(memory.reference), static_cast<void*>(memory.sums),
                    static_cast<void*>(memory.split.sums), static_cast<void*>(memory.split.arrivals)})
    cudaFree(one);
}

Call call_of(Gemm const& gemm, Memory const& memory, int tokens, int set) {
  Call call;
  call.problem = {tokens,        gemm.columns,  gemm.depth,     memory.a[set],
                  memory.b[set], memory.d[set], gemm.activation};
  call.split = memory.split;
  return call;
}

bool right(Kernel const& kernel, Gemm const& gemm, Memory const& memory, int tokens, cudaStream_t stream) {
  auto const call = call_of(gemm, memory, tokens, 0);
  std::size_t const count = std::size_t(tokens) * call.problem.output_columns();
  poison(memory.d[0], count, stream);
  cudaError_t const error = kernel.launch(call, stream);
  double const difference = relative_error(memory.d[0], memory.reference, count, stream);
  bool const ok = error == cudaSuccess && difference <= 2e-3;
  if (!ok || tokens < 200)
    std::printf("%s %s gemm %d, %d tokens: %s, error %.3g%s\n", kernel.info.name, gemm.model, gemm.number,
                tokens, cudaGetErrorString(error), difference, ok ? "" : " WRONG");
  return ok;
}

// For a profiler: each kernel, and each of cuBLASLt's, once.
void once(Gemm const& gemm, int tokens, std::vector<Kernel const*> const& kernels, cudaStream_t stream) {
  Memory memory = make_memory(gemm, tokens, stream);
  check(cudaStreamSynchronize(stream), "filling");
  CublasGemm const cublas(tokens, gemm.columns, gemm.depth, gemm.activation == Activation::gelu);
  for (Kernel const* kernel : kernels)
    for (int const blocks : {0, multiprocessors}) {
      auto call = call_of(gemm, memory, tokens, 0);
      call.band = 8;
      call.most_blocks = blocks;
      check(kernel->launch(call, stream), kernel->info.name);
    }
  for (int i = 0; i < std::min(6, cublas.algorithms()); ++i)
    cublas.run(i, memory.a[0], memory.b[0], memory.wide, stream);
  check(cudaStreamSynchronize(stream), "running");
  release(memory);
}

void measure(Gemm const& gemm, int tokens, std::vector<Kernel const*> const& kernels, cudaStream_t stream) {
  Memory memory = make_memory(gemm, tokens, stream);
  Timer timer(stream, sets, 8);
  std::vector<std::pair<double, Variant>> all;
  auto add = [&](Variant variant) {
    double const time = timer.quick(variant, 2);
    all.emplace_back(time, std::move(variant));
  };
  for (Kernel const* kernel : kernels) {
    for (int const band : {1, 0, 4, 8})
      for (int const blocks : {0, multiprocessors}) {
        if (blocks == 0 && band > 1) continue;
        add({kernel->info.name,
             (band == 0 ? std::string("columns") : "bands of " + std::to_string(band)) +
                 (blocks != 0 ? " persistent" : ""),
             [&, kernel, band, blocks](cudaStream_t on, int set) {
               auto call = call_of(gemm, memory, tokens, set);
               call.band = band;
               call.most_blocks = blocks;
               return kernel->launch(call, on);
             }});
      }
  }
  bool const gated = gemm.activation == Activation::swiglu;
  CublasGemm const cublas(tokens, gemm.columns, gemm.depth, gemm.activation == Activation::gelu);
  for (int i = 0; i < cublas.algorithms(); ++i) {
    add({"cublasLt", cublas.describe(i), [&, i](cudaStream_t on, int set) {
           void* const d = gated ? memory.wide : memory.d[set];
           cudaError_t const error = cublas.run(i, memory.a[set], memory.b[set], d, on);
           if (error != cudaSuccess || !gated) return error;
           return mlp::swiglu(d, memory.d[set], tokens, gemm.columns / 2, mlp::ElementType::bf16, on);
         }});
  }
  std::sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  // The best of each kernel, then the best eight and cuBLASLt against each other.
  std::map<std::string, int> seen;
  std::vector<Variant*> finals;
  for (auto& one : all) {
    int& count = seen[one.second.name];
    if (++count > 1 && !(one.second.name == "cublasLt" && count == 2)) continue;
    if (finals.size() >= 10 && one.second.name != "cublasLt") continue;
    if (timer.capture(one.second)) finals.push_back(&one.second);
  }
  timer.rounds(finals, 12);
  std::vector<double> hot;
  for (Variant* one : finals) {
    hot.push_back(median(one->samples));
    one->samples.clear();
  }
  timer.rounds(finals, 3, 8);
  double const flops = 2.0 * tokens * gemm.columns * gemm.depth;
  std::printf("%s gemm %d, %d tokens\n", gemm.model, gemm.number, tokens);
  for (std::size_t i = 0; i < finals.size(); ++i) {
    double const cool = median(finals[i]->samples);
    std::printf("  %-26s %-28s hot %7.2f (%4.0f TF) cool %7.2f (%4.0f TF)\n", finals[i]->name.c_str(),
                finals[i]->detail.c_str(), hot[i], flops / hot[i] * 1e-6, cool, flops / cool * 1e-6);
    timer.release(*finals[i]);
  }
  std::fflush(stdout);
  release(memory);
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
      Memory memory = make_memory(gemm, tokens, stream);
      float* const sums = gated ? memory.sums : memory.reference;
      reference_gemm(memory.a[0], memory.b[0], sums, tokens, gemm.columns, gemm.depth,
                     gemm.activation == Activation::gelu, stream);
      if (gated) reference_gate(sums, memory.reference, std::size_t(tokens) * gemm.columns / 2, stream);
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
      release(memory);
    }
    for (int i = 2; i < count; ++i) measure(gemm, std::atoi(arguments[i]), kernels, stream);
  }
  return 0;
}
