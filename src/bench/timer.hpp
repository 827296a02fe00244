// SPDX-License-Identifier: Apache-2.0
// Pieces of work as CUDA graphs, timed in turns by events.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <random>
#include <vector>

namespace tessera::bench {

/// Work that is repeated on rotating sets of operands.
struct Timed {
  std::function<cudaError_t(cudaStream_t, int set)> work;
  std::vector<double> hot{};   ///< microseconds for one piece of work
  std::vector<double> cool{};  ///< the same, after pauses
  cudaGraphExec_t graph = nullptr;
  double last_us = 0;  ///< the last sample taken; 0: none yet
};

/// Takes out how the clock drifts: divides the samples of each round by how much slower than usual that round
/// was, in the median over all. Precondition: each has a sample of each round.
void level(std::vector<Timed*> const& all, std::vector<double> Timed::*samples);

/// The first CUDA error is kept in error(); what follows it does nothing. cudaErrorLaunchTimeout: none
/// of the graphs that were enqueued ended within `longest_wait_s`; they still run, and only the end of the
/// process stops them: nothing that they use may be freed.
class Timer {
 public:
  /// Rounds of a few hundred milliseconds are far below it, waits that each meet a deadline too.
  static constexpr double longest_wait_s = 60;

  Timer(cudaStream_t stream, int sets, int per_graph);
  ~Timer();
  Timer(Timer const&) = delete;
  Timer& operator=(Timer const&) = delete;

  cudaError_t error() const { return error_; }

  /// A graph of `per_graph` pieces of work; false if the work cannot be captured.
  bool capture(Timed& timed);
  void release(Timed& timed);

  /// In each round every graph once to warm up (or again and again for `warm_us`, once its time is known) and
  /// once timed, back to back. Each round is in another order, drawn at random: at the power limit a kernel's
  /// clock depends on what ran before it, which must not always be the same.
  void hot_rounds(std::vector<Timed*> const& all, int count, double warm_us = 0);
  /// The same with one graph to warm up, and after each the GPU rests `rest` times as long as it worked.
  void cool_rounds(std::vector<Timed*> const& all, int count, double rest = 8);

  /// Median of a few samples of this work alone; infinite if it cannot run.
  double quick(std::function<cudaError_t(cudaStream_t, int set)> const& work, int samples);

 private:
  void keep(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  void wait(std::size_t places);  ///< for what was enqueued for so many places
  void enqueue(Timed const& timed, std::size_t place, double warm_us = 0);
  std::vector<Timed*> shuffled(std::vector<Timed*> all);
  double elapsed(std::size_t place);  ///< microseconds for one piece

  cudaStream_t stream_;
  int sets_;
  int per_graph_;
  cudaError_t error_ = cudaSuccess;
  std::mt19937 random_{1};           ///< the same orders in each run
  std::vector<cudaEvent_t> events_;  ///< begin and end of each place of a round
};

}  // namespace tessera::bench
