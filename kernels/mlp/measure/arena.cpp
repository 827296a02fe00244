// SPDX-License-Identifier: Apache-2.0
#include "arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/mlp/refusal.hpp"
#include "reference.hpp"

namespace tessera::mlp {
namespace {

constexpr long long counter_words = 8 << 20;
// Ten times the L2 cache of an H200, so that nothing of a set is left when its turn comes again.
constexpr std::size_t rotated_bytes = 600u << 20;
constexpr int most_sets = 12, least_sets = 3;
constexpr int references = 3;

std::size_t product(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace

template <class T>
bool Arena::allocate(T*& memory, std::size_t bytes) {
  void* made = nullptr;
  if (cudaMalloc(&made, bytes) != cudaSuccess) return false;
  memory_.push_back(made);
  memory = static_cast<T*>(made);
  return true;
}

Expected<void> Arena::allocate_all() {
  int const up = most_.form == Form::swiglu ? 2 : 1;
  std::size_t const x = 2 * product(most_.tokens, most_.model), h = 2 * product(most_.tokens, most_.hidden);
  std::size_t const weights = 2 * product(most_.hidden, most_.model);
  auto const wanted = static_cast<int>(rotated_bytes / ((up + 1) * weights + 2 * x) + 1);
  operands_.resize(static_cast<std::size_t>(std::clamp(wanted, least_sets, most_sets)));
  bool right = allocate(h_, h) && allocate(wide_, 2 * h * up) && allocate(workspace_.gate_up, 2 * h) &&
               allocate(workspace_.library, library_bytes) &&
               allocate(workspace_.stall, sizeof(StallRecord)) &&
               allocate(workspace_.counters, counter_words * 8);
  for (auto& set : operands_)
    right = right && allocate(set.x, x) && allocate(set.w1, up * weights) && allocate(set.w2, weights) &&
            allocate(set.y, x);
  for (int rounds = 0; rounds < up; ++rounds)
    for (int i = 0; i < references; ++i) {
      auto& one = references_[rounds].emplace_back();
      right = right && allocate(one.h, 2 * h) && allocate(one.y, 2 * x);
    }
  if (!right) return cuda_failed(cudaGetLastError(), "cudaMalloc for the operands");
  auto const deviation = [](int size) { return 1 / std::sqrt(static_cast<float>(size)); };
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    auto const& set = operands_[i];
    fill_random(set.x, x / 2, most_.type, 100 + i, 1, stream_);
    fill_random(set.w1, up * weights / 2, most_.type, 200 + i, deviation(most_.model), stream_);
    fill_random(set.w2, weights / 2, most_.type, 300 + i, deviation(most_.hidden), stream_);
  }
  cudaMemsetAsync(workspace_.stall, 0, sizeof(StallRecord), stream_);
  cudaMemsetAsync(workspace_.counters, 0, counter_words * 8, stream_);
  if (auto const error = cudaStreamSynchronize(stream_); error != cudaSuccess)
    return cuda_failed(error, "filling the operands");
  return {};
}

Expected<std::unique_ptr<Arena>> Arena::make(Shape const& most, cudaStream_t stream) {
  std::unique_ptr<Arena> arena(new Arena(most, stream));
  if (auto const made = arena->allocate_all(); !made) return tl::make_unexpected(made.error());
  return arena;
}

Arena::~Arena() {
  for (auto* const one : memory_) cudaFree(one);
}

Expected<void> Arena::start(int tokens) {
  shape_.tokens = tokens;
  give_back_counters();
  int const up = shape_.form == Form::swiglu ? 2 : 1;
  for (int i = 0; i < references; ++i) {
    auto const& set = operands_[static_cast<std::size_t>(i)];
    reference_gemm(set.x, set.w1, wide_, tokens, up * shape_.hidden, shape_.model, shape_.type, stream_);
    for (int rounds = 0; rounds < up; ++rounds) {
      auto const& one = references_[rounds][static_cast<std::size_t>(i)];
      reference_activation(wide_, one.h, tokens, shape_.hidden, shape_.form, shape_.type, rounds == 1,
                           stream_);
      round_to(one.h, h_, product(tokens, shape_.hidden), shape_.type, stream_);
      reference_gemm(h_, set.w2, one.y, tokens, shape_.model, shape_.hidden, shape_.type, stream_);
    }
  }
  if (auto const error = cudaStreamSynchronize(stream_); error != cudaSuccess)
    return cuda_failed(error, "computing the references");
  return {};
}

std::function<cudaError_t(cudaStream_t, int set)> Arena::work(Candidate const& candidate) {
  Workspace mine = workspace_;
  mine.counters += counters_used_;
  counters_used_ += (candidate.counter_words + 15) / 16 * 16;
  bool const enough = counters_used_ <= counter_words;
  return [this, candidate, mine, enough](cudaStream_t stream, int set) {
    return enough ? candidate.launch(buffers(set), mine, stream) : cudaErrorMemoryAllocation;
  };
}

void Arena::give_back_counters() {
  cudaMemsetAsync(workspace_.counters, 0,
                  static_cast<std::size_t>(std::min(counters_used_, counter_words)) * 8, stream_);
  counters_used_ = 0;
}

bool Arena::gave_up() {
  StallRecord stall;
  if (cudaStreamSynchronize(stream_) != cudaSuccess ||
      cudaMemcpy(&stall, workspace_.stall, sizeof stall, cudaMemcpyDeviceToHost) != cudaSuccess)
    return true;
  if (stall.state == 0) return false;
  cudaMemset(workspace_.stall, 0, sizeof stall);
  return true;
}

double Arena::verify(Candidate const& candidate) {
  constexpr double wrong = std::numeric_limits<double>::quiet_NaN();
  auto const launch = work(candidate);
  double worst = 0;
  for (int i = 0; i < references; ++i) {
    auto const& set = operands_[static_cast<std::size_t>(i)];
    auto const& reference = references_[candidate.rounds_gate_up ? 1 : 0][static_cast<std::size_t>(i)];
    std::size_t const h_size = product(shape_.tokens, shape_.hidden),
                      y_size = product(shape_.tokens, shape_.model);
    poison(h_, h_size, stream_);
    poison(set.y, y_size, stream_);
    if (launch(stream_, i) != cudaSuccess) return wrong;
    double const h = relative_error(h_, reference.h, h_size, shape_.type, stream_);
    double const y = relative_error(set.y, reference.y, y_size, shape_.type, stream_);
    if (gave_up() || std::isnan(h) || std::isnan(y)) return wrong;
    worst = std::max({worst, h, y});
  }
  return worst;
}

Expected<double> Arena::read_bandwidth() {
  // One kernel over much more than the L2 cache, so that its start and end do not count.
  constexpr std::size_t bytes = 2ull << 30;
  void* memory = nullptr;
  if (auto const error = cudaMalloc(&memory, bytes); error != cudaSuccess)
    return cuda_failed(error, "cudaMalloc for measuring the read bandwidth");
  fill_random(memory, bytes / 2, most_.type, 1, 1, stream_);
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  double best = 0;
  for (int round = 0; round < 10; ++round) {
    cudaEventRecord(begin, stream_);
    read_all(memory, bytes, static_cast<unsigned*>(h_), stream_);
    cudaEventRecord(end, stream_);
    float milliseconds = 0;
    cudaEventSynchronize(end);
    if (cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess && milliseconds > 0)
      best = std::max(best, static_cast<double>(bytes) / (milliseconds * 1e-3));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaFree(memory);
  if (best == 0) return cuda_failed(cudaGetLastError(), "measuring the read bandwidth");
  return best;
}

}  // namespace tessera::mlp
