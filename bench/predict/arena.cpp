// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "bench/predict/arena.hpp"
#include "kernels/gemm_sm90/device_data.hpp"

namespace tessera::bench {
namespace {

template <class T>
T* allocate(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(memory);
}

constexpr std::size_t bf16_bytes = 2;

}  // namespace

Arena make_arena(Model const& model, int most_tokens, cudaStream_t stream) {
  using namespace gemm_sm90;
  Arena arena{};
  arena.model = model;
  arena.most_tokens = most_tokens;
  arena.counter_words = 4 << 20;
  arena.counters = allocate<unsigned long long>(static_cast<std::size_t>(arena.counter_words));
  std::size_t const tokens = static_cast<std::size_t>(most_tokens);
  std::size_t const weights = static_cast<std::size_t>(model.model) * model.hidden;
  auto bf16 = [](std::size_t count) { return static_cast<void*>(allocate<char>(count * bf16_bytes)); };
  auto random = [&](std::size_t count, int seed, double deviation) {
    void* const memory = bf16(count);
    fill_random(memory, count, static_cast<unsigned long long>(seed), static_cast<float>(deviation), stream);
    return memory;
  };
  for (int i = 0; i < sets; ++i) {
    PairBuffers& set = arena.set[i];
    set.model = model.model;
    set.hidden = model.hidden;
    set.x = random(tokens * model.model, 100 + i, 1);
    set.w1 = random(weights, 200 + i, 1 / std::sqrt(model.model));
    set.w2 = random(weights, 300 + i, 1 / std::sqrt(model.hidden));
    set.h = bf16(tokens * model.hidden);
    set.y = bf16(tokens * model.model);
    set.stall = allocate<StallRecord>(1);
    check(cudaMemset(set.stall, 0, sizeof(StallRecord)), "cudaMemset");
    arena.h_reference[i] = allocate<float>(tokens * model.hidden);
    arena.y_reference[i] = allocate<float>(tokens * model.model);
  }
  arena.h_rounded = bf16(tokens * model.hidden);
  check(cudaStreamSynchronize(stream), "filling");
  return arena;
}

void release(Arena& arena) {
  for (int i = 0; i < sets; ++i) {
    auto const& set = arena.set[i];
    for (void const* memory : {set.x, set.w1, set.w2, static_cast<void const*>(set.h),
                               static_cast<void const*>(set.y), static_cast<void const*>(set.stall)})
      cudaFree(const_cast<void*>(memory));
    cudaFree(arena.h_reference[i]);
    cudaFree(arena.y_reference[i]);
  }
  cudaFree(arena.h_rounded);
  cudaFree(arena.counters);
}

void start_size(Arena& arena, int tokens, cudaStream_t stream) {
  using namespace gemm_sm90;
  check(cudaMemsetAsync(arena.counters, 0, static_cast<std::size_t>(arena.counter_words) * 8, stream),
        "cudaMemset");
  arena.counters_used = 0;
  int const model = arena.model.model;
  int const hidden = arena.model.hidden;
  for (int i = 0; i < sets; ++i) {
    PairBuffers& set = arena.set[i];
    set.tokens = tokens;
    reference_gemm(set.x, set.w1, arena.h_reference[i], tokens, hidden, model, true, stream);
    round_to_bf16(arena.h_reference[i], arena.h_rounded, static_cast<std::size_t>(tokens) * hidden, stream);
    reference_gemm(arena.h_rounded, set.w2, arena.y_reference[i], tokens, model, hidden, false, stream);
  }
  check(cudaStreamSynchronize(stream), "reference");
}

double verify(Arena const& arena, Variant const& variant, cudaStream_t stream) {
  using namespace gemm_sm90;
  double worst = 0;
  for (int i = 0; i < sets; ++i) {
    PairBuffers const& set = arena.set[i];
    std::size_t const h_size = static_cast<std::size_t>(set.tokens) * set.hidden;
    std::size_t const y_size = static_cast<std::size_t>(set.tokens) * set.model;
    poison(set.h, h_size, stream);
    poison(set.y, y_size, stream);
    if (variant.work(stream, i) != cudaSuccess) return std::numeric_limits<double>::quiet_NaN();
    double const h = relative_error(set.h, arena.h_reference[i], h_size, stream);
    double const y = relative_error(set.y, arena.y_reference[i], y_size, stream);
    StallRecord stall;
    check(cudaMemcpy(&stall, set.stall, sizeof stall, cudaMemcpyDeviceToHost), "stall record");
    if (std::isnan(h) || std::isnan(y) || stall.state != 0) return std::numeric_limits<double>::quiet_NaN();
    worst = std::fmax(worst, std::fmax(h, y));
  }
  return worst;
}

}  // namespace tessera::bench
