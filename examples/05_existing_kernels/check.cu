// SPDX-License-Identifier: Apache-2.0
// Runs the chain with the kernels as they were, in stream order, and with the synchronized ones, under
// programmatic launch: the same bits, launch after launch, on poisoned buffers, and the right values against
// sums in double precision. Needs a GPU (sm_90).
//
//     check [launches]
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "synchronized/chain.cuh"

// Both versions have the same names; what they include stands above, outside of the namespaces.
namespace original {
#include "original/gemm.cuh"
#include "original/softmax_dropout.cuh"
}  // namespace original
namespace synchronized {
#include "synchronized/gemm.cuh"
#include "synchronized/softmax_dropout.cuh"
}  // namespace synchronized

namespace {

namespace plan = existing_kernels;
constexpr int k_rows = 1024, k_depth = 512, k_middle = 1024, k_columns = 1024;
constexpr int k_tiles_wide = 16;
constexpr unsigned k_seed = 20261121, k_keep_below = 0xE6666666u;  // nine of ten stay
constexpr float k_scale = 0.25f, k_kept_scale = 1 / 0.9f;
using Watch = tessera::DeadlineWatch<>;

void ok(cudaError_t status, int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "check.cu:%d: %s\n", line, cudaGetErrorString(status));
  std::exit(1);
}
template <class T>
T* device(std::size_t count, int byte) {
  T* pointer = nullptr;
  ok(cudaMalloc(&pointer, count * sizeof(T)));
  ok(cudaMemset(pointer, byte, count * sizeof(T)));
  return pointer;
}
std::vector<half> random_matrix(std::size_t count, unsigned seed) {
  std::vector<half> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = __float2half(
        static_cast<float>(original::random_bits(seed, static_cast<unsigned>(i)) % 2001) / 10000.0f - 0.1f);
  return values;
}
half* upload(std::vector<half> const& values) {
  half* const pointer = device<half>(values.size(), 0);
  ok(cudaMemcpy(pointer, values.data(), values.size() * sizeof(half), cudaMemcpyHostToDevice));
  return pointer;
}
std::vector<half> download(half const* from, std::size_t count) {
  std::vector<half> values(count);
  ok(cudaMemcpy(values.data(), from, count * sizeof(half), cudaMemcpyDeviceToHost));
  return values;
}

struct Buffers {
  half *x, *w1, *w2, *h, *s, *p;
  void poison() const {
    ok(cudaMemset(h, 0xFF, sizeof(half) * k_rows * k_middle));
    ok(cudaMemset(s, 0xFF, sizeof(half) * k_rows * k_columns));
    ok(cudaMemset(p, 0xFF, sizeof(half) * k_rows * k_columns));
  }
};

void run_original(Buffers const& b) {
  using namespace original;
  dim3 const grid(k_tiles_wide, k_rows / k_tile);
  gemm<<<grid, k_gemm_threads>>>({b.x, b.w1, b.h, k_middle, k_depth});
  gemm<<<grid, k_gemm_threads>>>({b.h, b.w2, b.s, k_columns, k_middle});
  softmax_dropout<<<k_rows, k_softmax_threads>>>(
      {b.s, b.p, k_columns, k_scale, k_seed, k_keep_below, k_kept_scale});
  ok(cudaGetLastError());
}

template <class Kernel, class Arguments, class Stage>
void launch(Kernel* kernel, dim3 grid, int threads, bool programmatic, Arguments const& arguments,
            Stage const& stage) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = static_cast<unsigned>(threads);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  ok(cudaLaunchKernelEx(&config, kernel, arguments, stage));
}

/// The launches change with the plan's mechanism: here the programmatic attribute, from the second kernel on.
void run_synchronized(Buffers const& b, tessera::ChainMemory const& memory, Watch const& watch) {
  using namespace synchronized;
  dim3 const grid(k_tiles_wide, k_rows / k_tile);
  using Gemm1 = tessera::StageView<plan::gemm1, Watch>;
  using Gemm2 = tessera::StageView<plan::gemm2, Watch>;
  using Softmax = tessera::StageView<plan::softmax, Watch>;
  launch(gemm<Gemm1>, grid, k_gemm_threads, false, GemmArguments{b.x, b.w1, b.h, k_middle, k_depth},
         Gemm1(memory, watch));
  launch(gemm<Gemm2>, grid, k_gemm_threads, true, GemmArguments{b.h, b.w2, b.s, k_columns, k_middle},
         Gemm2(memory, watch));
  launch(softmax_dropout<Softmax>, dim3(k_rows), k_softmax_threads, true,
         SoftmaxArgs{b.s, b.p, k_columns, k_scale, k_seed, k_keep_below, k_kept_scale},
         Softmax(memory, watch));
}

/// Median of the time of `launches` runs, in microseconds.
template <class Run>
double time_us(int launches, Run&& run) {
  cudaEvent_t begin, end;
  ok(cudaEventCreate(&begin));
  ok(cudaEventCreate(&end));
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    ok(cudaEventRecord(begin));
    for (int j = 0; j < 20; ++j) run();
    ok(cudaEventRecord(end));
    ok(cudaEventSynchronize(end));
    float milliseconds = 0;
    ok(cudaEventElapsedTime(&milliseconds, begin, end));
    times.push_back(milliseconds * 1000.0 / 20);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// ||p - reference|| / ||reference|| over some rows, from the inputs in double precision.
double relative_error(std::vector<half> const& x, std::vector<half> const& w1, std::vector<half> const& w2,
                      std::vector<half> const& p) {
  double difference = 0, norm = 0;
  for (int row = 5; row < k_rows; row += 61) {
    std::vector<double> h(k_middle, 0), s(k_columns, 0);
    for (int k = 0; k < k_depth; ++k)
      for (int j = 0; j < k_middle; ++j)
        h[static_cast<std::size_t>(j)] +=
            static_cast<double>(__half2float(x[static_cast<std::size_t>(row * k_depth + k)])) *
            __half2float(w1[static_cast<std::size_t>(k * k_middle + j)]);
    for (int k = 0; k < k_middle; ++k)
      for (int j = 0; j < k_columns; ++j)
        s[static_cast<std::size_t>(j)] +=
            h[static_cast<std::size_t>(k)] * __half2float(w2[static_cast<std::size_t>(k * k_columns + j)]);
    double sum = 0;
    for (auto& value : s) sum += value = std::exp(k_scale * value);
    for (int j = 0; j < k_columns; ++j) {
      auto const at = static_cast<unsigned>(row * k_columns + j);
      bool const stays = original::random_bits(k_seed, at) < k_keep_below;
      double const wanted = stays ? s[static_cast<std::size_t>(j)] / sum * k_kept_scale : 0;
      double const found = __half2float(p[at]);
      difference += (found - wanted) * (found - wanted);
      norm += wanted * wanted;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

int main(int count, char** arguments) {
  int const launches = count > 1 ? std::atoi(arguments[1]) : 50;
  tessera::ChainMemory const memory{device<unsigned>(plan::chain::semaphores, 0),
                                    device<unsigned long long>(plan::chain::counters, 0)};
  Watch const watch{device<tessera::StallRecord>(1, 0), 1'000'000'000};
  for (unsigned seed = 1; seed <= 3; ++seed) {
    auto const x = random_matrix(k_rows * k_depth, seed);
    auto const w1 = random_matrix(k_depth * k_middle, seed + 10);
    auto const w2 = random_matrix(k_middle * k_columns, seed + 20);
    Buffers const b{upload(x),
                    upload(w1),
                    upload(w2),
                    device<half>(k_rows * k_middle, 0xFF),
                    device<half>(k_rows * k_columns, 0xFF),
                    device<half>(k_rows * k_columns, 0xFF)};
    run_original(b);
    auto const wanted = download(b.p, k_rows * k_columns);
    double const error = relative_error(x, w1, w2, wanted);
    std::printf("seed %u: relative error %.2e\n", seed, error);
    if (!(error <= 2e-3)) return 1;
    for (int i = 0; i < launches; ++i) {
      b.poison();
      run_synchronized(b, memory, watch);
      auto const found = download(b.p, k_rows * k_columns);
      tessera::StallRecord stall;
      ok(cudaMemcpy(&stall, watch.record, sizeof stall, cudaMemcpyDeviceToHost));
      if (stall.state != 0) {
        std::printf("a wait met its deadline: stage %d, tile %lld, semaphore %lld: %u of %u\n", stall.stage,
                    stall.tile, stall.semaphore, stall.seen, stall.expected);
        return 1;
      }
      for (std::size_t at = 0; at < found.size(); ++at)
        if (__half_as_ushort(found[at]) != __half_as_ushort(wanted[at])) {
          std::printf("launch %d: element %zu differs\n", i, at);
          return 1;
        }
    }
    if (seed == 3)
      std::printf("stream order %.1f us, synchronized %.1f us\n", time_us(15, [&] { run_original(b); }),
                  time_us(15, [&] { run_synchronized(b, memory, watch); }));
  }
  std::printf("%d launches each: the same bits\n", launches);
  return 0;
}
