// SPDX-License-Identifier: Apache-2.0
#include "workbench.hpp"

#include <cmath>

#include "kernels/common/mlp_reference.hpp"

namespace tessera::gemm_test {
namespace {

constexpr long long counter_words = 1 << 18;
// fp32 sums of both GEMMs' padded outputs, twice.
constexpr std::size_t sum_bytes = 256u << 20;

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes));
  CHECK(cudaMemset(memory, 0, bytes));
  return memory;
}

}  // namespace

PairPlan plan_of(Case const& one, Kernel const& first, Kernel const& second, int second_band) {
  return {{&first, one.band, one.blocks},
          {&second, second_band < 0 ? one.band : second_band, one.blocks},
          one.mechanism,
          one.columns_per_semaphore,
          one.early_weights,
          one.chained};
}

Workbench::Workbench(int model, int hidden, int most_tokens) : most_tokens_(most_tokens) {
  std::size_t const tokens = std::size_t(most_tokens);
  std::size_t const weights = std::size_t(model) * hidden;
  buffers_.model = model;
  buffers_.hidden = hidden;
  buffers_.x = allocate(tokens * model * 2);
  buffers_.w1 = allocate(2 * weights * 2);
  buffers_.h = allocate(tokens * hidden * 2);
  buffers_.w2 = allocate(weights * 2);
  buffers_.y = allocate(tokens * model * 2);
  buffers_.counters = static_cast<unsigned long long*>(allocate(counter_words * 8));
  buffers_.stall = static_cast<StallRecord*>(allocate(sizeof(StallRecord)));
  buffers_.sums = static_cast<float*>(allocate(sum_bytes));
  h_rounded_ = allocate(tokens * hidden * 2);
  wide_ = static_cast<float*>(allocate(tokens * hidden * 2 * 4));
  h_reference_ = static_cast<float*>(allocate(tokens * hidden * 4));
  y_reference_ = static_cast<float*>(allocate(tokens * model * 4));
}

Workbench::~Workbench() {
  for (void const* memory :
       {buffers_.x, buffers_.w1, static_cast<void const*>(buffers_.h), buffers_.w2,
        static_cast<void const*>(buffers_.y), static_cast<void const*>(buffers_.counters),
        static_cast<void const*>(buffers_.stall), static_cast<void const*>(buffers_.sums),
        static_cast<void const*>(h_rounded_), static_cast<void const*>(wide_),
        static_cast<void const*>(h_reference_), static_cast<void const*>(y_reference_)})
    cudaFree(const_cast<void*>(memory));
}

void Workbench::fill(mlp::Form form, ElementType type, int tokens, unsigned seed, cudaStream_t stream) {
  if (tokens > most_tokens_) std::abort();
  buffers_.tokens = tokens;
  buffers_.form = form;
  buffers_.type = type;
  bool const gated = form == mlp::Form::swiglu;
  int const model = buffers_.model;
  int const hidden = buffers_.hidden;
  auto random = [&](void const* to, std::size_t count, unsigned which, double deviation) {
    bench::fill_random(const_cast<void*>(to), count, type, 10 * seed + which, static_cast<float>(deviation),
                       stream);
  };
  random(buffers_.x, std::size_t(tokens) * model, 0, 1);
  random(buffers_.w1, std::size_t(hidden) * model * (gated ? 2 : 1), 1, 1 / std::sqrt(model));
  random(buffers_.w2, std::size_t(hidden) * model, 2, 1 / std::sqrt(hidden));
  mlp::reference_mlp({tokens, model, hidden, form, type}, {buffers_.x, buffers_.w1, h_rounded_, buffers_.w2},
                     wide_, h_reference_, y_reference_, false, stream);
  CHECK(cudaStreamSynchronize(stream));
}

void Workbench::poison_outputs(cudaStream_t stream) const {
  bench::poison(buffers_.h, h_count(), stream);
  bench::poison(buffers_.y, y_count(), stream);
}

void Workbench::reset() const {
  CHECK(cudaMemset(buffers_.counters, 0, counter_words * 8));
  CHECK(cudaMemset(buffers_.stall, 0, sizeof(StallRecord)));
}

StallRecord Workbench::stall() const {
  StallRecord stall;
  CHECK(cudaMemcpy(&stall, buffers_.stall, sizeof stall, cudaMemcpyDeviceToHost));
  return stall;
}

double Workbench::error(cudaStream_t stream) const {
  double const h = bench::relative_error(buffers_.h, h_reference_, h_count(), buffers_.type, stream);
  double const y = bench::relative_error(buffers_.y, y_reference_, y_count(), buffers_.type, stream);
  if (StallRecord const record = stall(); record.state != 0) {
    std::printf("stall: tile row %lld waits for semaphore %lld: %u of %u after %llu ns\n", record.tile,
                record.semaphore, record.seen, record.expected, record.waited_ns);
    return NAN;
  }
  return std::isnan(h) || std::isnan(y) ? NAN : std::fmax(h, y);
}

double Workbench::run(PairPlan const& plan, int launches, cudaStream_t stream) const {
  if (counters_of(plan, buffers_) > counter_words || sum_bytes_of(plan, buffers_) > sum_bytes) return NAN;
  reset();
  double worst = 0;
  for (int launch = 0; launch < launches; ++launch) {
    poison_outputs(stream);
    if (cudaError_t const error = launch_pair(plan, buffers_, stream); error != cudaSuccess) {
      std::printf("launch: %s\n", cudaGetErrorString(error));
      return NAN;
    }
    double const one = error(stream);
    worst = std::isnan(one) ? NAN : std::fmax(worst, one);
    if (std::isnan(worst)) break;
  }
  return worst;
}

}  // namespace tessera::gemm_test
