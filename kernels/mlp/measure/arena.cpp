// SPDX-License-Identifier: Apache-2.0
#include "arena.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/mlp_reference.hpp"
#include "kernels/common/refusal.hpp"

namespace tessera::mlp {
namespace {

using kernels::cuda_failed;

constexpr long long counter_words = 8 << 20;
constexpr int references = 3;

std::size_t product(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace

Expected<void> Arena::allocate() {
  auto const& most = shape_;
  std::size_t const up = most.form == Form::swiglu ? 2 : 1;
  std::size_t const x = 2 * product(most.tokens, most.model), h = 2 * product(most.tokens, most.hidden);
  std::size_t const weights = 2 * product(most.hidden, most.model);
  auto const random = [&](unsigned long long seed, int summands) {
    return bench::random_numbers(most.type, seed, 1 / std::sqrt(summands));
  };
  std::vector<bench::Operand> const operands = {{"x", x, random(100, 1)},
                                                {"w1", up * weights, random(200, most.model)},
                                                {"w2", weights, random(300, most.hidden)},
                                                {"y", x}};
  std::vector<bench::Operand> const shared = {{"h", h},
                                              {"sums", 2 * h * up},
                                              {"gate_up", 2 * h},
                                              {"library", library_bytes},
                                              {"stall", sizeof(StallRecord), bench::zeros()},
                                              {"counters", counter_words * 8, bench::zeros()}};
  std::vector<bench::Operand> wanted = {{"h", 2 * h}, {"y", 2 * x}};
  if (up == 2) wanted.insert(wanted.end(), {{"h rounded", 2 * h}, {"y rounded", 2 * x}});
  for (auto const error :
       {sets_.make(operands, bench::sets_beyond_l2((up + 1) * weights + 2 * x, references), stream_),
        shared_.make(shared, 1, stream_), references_.make(wanted, references, stream_)})
    if (error != cudaSuccess) return cuda_failed(error, "making the operands");
  workspace_ = {shared_.at("gate_up"), shared_.at("library"), shared_.as<unsigned long long>("counters"),
                shared_.as<StallRecord>("stall")};
  return {};
}

Expected<std::unique_ptr<Arena>> Arena::make(Shape const& most, cudaStream_t stream) {
  std::unique_ptr<Arena> arena(new Arena(most, stream));
  if (auto const made = arena->allocate(); !made) return tl::make_unexpected(made.error());
  return arena;
}

Expected<void> Arena::start(int tokens) {
  shape_.tokens = tokens;
  give_back_counters();
  auto* const sums = shared_.as<float>("sums");
  for (int i = 0; i < references; ++i) {
    reference_mlp(shape_, buffers(i), sums, references_.as<float>("h", i), references_.as<float>("y", i),
                  false, stream_);
    if (shape_.form == Form::swiglu)
      reference_mlp(shape_, buffers(i), sums, references_.as<float>("h rounded", i),
                    references_.as<float>("y rounded", i), true, stream_);
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
  bool const rounded = candidate.rounds_gate_up && shape_.form == Form::swiglu;
  for (int i = 0; i < references; ++i) {
    auto const set = buffers(i);
    std::size_t const h_size = product(shape_.tokens, shape_.hidden),
                      y_size = product(shape_.tokens, shape_.model);
    bench::poison(set.h, h_size, stream_);
    bench::poison(set.y, y_size, stream_);
    if (launch(stream_, i) != cudaSuccess) return wrong;
    double const h = bench::relative_error(set.h, references_.as<float>(rounded ? "h rounded" : "h", i),
                                           h_size, shape_.type, stream_);
    double const y = bench::relative_error(set.y, references_.as<float>(rounded ? "y rounded" : "y", i),
                                           y_size, shape_.type, stream_);
    if (gave_up() || std::isnan(h) || std::isnan(y)) return wrong;
    worst = std::max({worst, h, y});
  }
  return worst;
}

Expected<double> Arena::read_bandwidth() const {
  double const best = bench::read_bandwidth(stream_);
  if (best == 0) return cuda_failed(cudaGetLastError(), "measuring the read bandwidth");
  return best;
}

}  // namespace tessera::mlp
