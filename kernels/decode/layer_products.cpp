// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/decode/device_memory.hpp"

namespace tessera::decode {
namespace {

using cublaslt::LtAlgorithm;
using cublaslt::LtGemm;
using cublaslt::LtProblem;

constexpr int k_few_rows = 256;  ///< up to so many a product is short, and all algorithms are tried
constexpr std::size_t k_most_tried = 12, k_most_tried_short = 64;
constexpr int k_samples = 3;      ///< of an algorithm
constexpr float k_worth = 0.98f;  ///< of the first guess's time

/// Products of a sample: some 100 microseconds of them, and no less than two.
int products_of_sample(LtProblem const& problem) {
  if (problem.rows > k_few_rows) return 2;
  constexpr double k_few_bytes = 64e6;
  return 2.0 * problem.columns * problem.depth <= k_few_bytes ? 16 : 4;
}

/// Algorithms that have been timed, by device, until the process ends.
class Known {
 public:
  std::optional<LtAlgorithm> find(LtProblem const& problem) const {
    std::lock_guard const lock(mutex_);
    auto const found = all_.find({device(), problem});
    return found == all_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(LtProblem const& problem, LtAlgorithm const& algorithm) {
    std::lock_guard const lock(mutex_);
    all_.try_emplace({device(), problem}, algorithm);
  }

 private:
  static int device() {
    int which = 0;
    (void)cudaGetDevice(&which);
    return which;
  }
  mutable std::mutex mutex_;
  std::map<std::pair<int, LtProblem>, LtAlgorithm> all_;
};
Known& known() {
  static auto& all = *new Known;
  return all;
}

cudaError_t run(LtGemm const& gemm, LtAlgorithm const& algorithm, ProductOperands const& o,
                cudaStream_t stream) {
  constexpr auto bytes = cublaslt::workspace_bytes;
  return o.adds ? gemm.run_adding(algorithm, o.input, o.weights, o.to, o.to, o.workspace, bytes, stream)
                : gemm.run(algorithm, o.input, o.weights, o.to, o.workspace, bytes, stream);
}

/// Launches that were captured once, to be enqueued without the host's time for each.
class Captured {
 public:
  template <class Work>
  explicit Captured(Work const& work) {
    cudaStream_t stream = nullptr;
    error_ = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error_ != cudaSuccess) return;
    error_ = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error_ == cudaSuccess) {
      auto const done = work(stream);
      cudaGraph_t graph = nullptr;
      error_ = cudaStreamEndCapture(stream, &graph);
      if (done != cudaSuccess) error_ = done;
      if (error_ == cudaSuccess) error_ = cudaGraphInstantiate(&graph_, graph, 0);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
    }
    (void)cudaStreamDestroy(stream);
  }
  ~Captured() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  }
  Captured(Captured const&) = delete;
  Captured& operator=(Captured const&) = delete;

  cudaError_t launch(cudaStream_t stream) const {
    return error_ != cudaSuccess ? error_ : cudaGraphLaunch(graph_, stream);
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

/// Two events of a stream.
class Clock {
 public:
  Clock() {
    for (auto* const one : {&begin_, &end_})
      if (error_ == cudaSuccess) error_ = cudaEventCreate(one);
  }
  ~Clock() {
    for (auto const one : {begin_, end_})
      if (one != nullptr) (void)cudaEventDestroy(one);
  }
  Clock(Clock const&) = delete;
  Clock& operator=(Clock const&) = delete;

  /// Nothing: `work` cannot be enqueued. An error of CUDA stays in error().
  template <class Work>
  std::optional<float> milliseconds(cudaStream_t stream, Work const& work) {
    float result = 0;
    keep(cudaEventRecord(begin_, stream));
    if (error_ != cudaSuccess || work() != cudaSuccess) return {};
    keep(cudaEventRecord(end_, stream));
    keep(error_ == cudaSuccess ? cudaEventSynchronize(end_) : error_);
    keep(error_ == cudaSuccess ? cudaEventElapsedTime(&result, begin_, end_) : error_);
    return error_ == cudaSuccess ? std::optional(result) : std::nullopt;
  }
  cudaError_t error() const { return error_; }

 private:
  void keep(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

Expected<void> multiply(LtProblem const& problem, ProductOperands const& operands, bool timed,
                        cudaStream_t stream) {
  auto const gemm = LtGemm::make(problem);
  if (!gemm) return tl::make_unexpected(gemm.error());
  auto const& guess = (*gemm)->algorithms().front();
  auto const algorithm = timed ? known().find(problem).value_or(guess) : guess;
  return check_call(run(**gemm, algorithm, operands, stream), "a product");
}

Expected<void> time_algorithms(LtProblem const& problem, std::vector<ProductOperands> const& sets,
                               cudaStream_t stream) {
  if (sets.empty() || known().find(problem)) return {};
  auto const gemm = LtGemm::make(problem);
  if (!gemm) return tl::make_unexpected(gemm.error());
  Clock clock;
  std::size_t turn = 0;
  auto const capture = [&](LtAlgorithm const& algorithm) {
    return Captured([&](cudaStream_t in) {
      auto error = cudaSuccess;
      for (int i = 0; i < products_of_sample(problem) && error == cudaSuccess; ++i)
        error = run(**gemm, algorithm, sets[turn++ % sets.size()], in);
      return error;
    });
  };
  auto const& all = (*gemm)->algorithms();
  auto best = all.front();
  std::optional<float> least;
  auto const tried = problem.rows <= k_few_rows ? k_most_tried_short : k_most_tried;
  for (std::size_t i = 0; i < std::min(all.size(), tried); ++i) {
    // Loads it, which is not to happen while a stream is captured.
    if (run(**gemm, all[i], sets.front(), stream) != cudaSuccess) continue;
    // Each is of other weights than the one before, so that they come from memory.
    auto const sample = [&] {
      auto const products = capture(all[i]);
      return clock.milliseconds(stream, [&] { return products.launch(stream); });
    };
    for (int warm = 0; warm < (i == 0 ? 4 : 1); ++warm) (void)sample();  // the first ones wake the clocks
    std::optional<float> mine;
    for (int s = 0; s < k_samples; ++s)
      if (auto const one = sample(); one) mine = std::min(*one, mine.value_or(*one));
    if (clock.error() != cudaSuccess) break;
    if (!mine || (least && *mine >= *least)) continue;
    // Behind the first guess the least is what has to be undercut.
    least = i == 0 ? k_worth * *mine : *mine;
    best = all[i];
  }
  if (auto ok = check_call(clock.error(), "timing products"); !ok) return ok;
  if (!least)
    return check_call(
        cudaErrorNotSupported,
        fmt::format("timing a product of {} rows, {} columns and a depth of {}: no algorithm runs",
                    problem.rows, problem.columns, problem.depth));
  known().keep(problem, best);
  return {};
}

}  // namespace tessera::decode
