// SPDX-License-Identifier: Apache-2.0
// Operands to measure candidates on: several sets, together larger than the L2 cache, with references.
#pragma once

#include <memory>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/mlp/candidate.hpp"
#include "src/bench/operand_sets.hpp"

namespace tessera::mlp {

class Arena {
 public:
  /// Memory and random operands for up to `most.tokens`. E0511.
  static Expected<std::unique_ptr<Arena>> make(Shape const& most, cudaStream_t stream);

  int sets() const { return sets_.count(); }
  cudaStream_t stream() const { return stream_; }

  /// Computes the references for so many tokens of the first three sets.
  Expected<void> start(int tokens);

  /// Launches the candidate on a set, with counters of its own. They are given back all at once. A candidate
  /// for which none are left fails when it is launched.
  std::function<cudaError_t(cudaStream_t, int set)> work(Candidate const& candidate);
  void give_back_counters();

  /// Whether a wait of what was launched gave up; forgets it. What ran after the first such wait did not wait
  /// at all, so that its times say nothing. Waits for the stream.
  bool gave_up();

  /// Runs it on poisoned outputs of each set that has a reference: the worst relative error of h and y, NaN
  /// if it cannot run, left something unwritten or a wait gave up.
  double verify(Candidate const& candidate);

  /// Bytes per second that one kernel reads at, the best of a few.
  Expected<double> read_bandwidth() const;

 private:
  Arena(Shape const& most, cudaStream_t stream) : shape_(most), stream_(stream) {}
  Expected<void> allocate();
  Buffers buffers(int set) const {
    return {sets_.at("x", set), sets_.at("w1", set), shared_.at("h"), sets_.at("w2", set),
            sets_.at("y", set)};
  }

  Shape shape_;
  cudaStream_t stream_;
  bench::OperandSets sets_;        ///< x, w1, w2, y
  bench::OperandSets shared_;      ///< what is used by one launch at a time
  bench::OperandSets references_;  ///< of the first sets: h, y, and those of rounded gate and up
  Workspace workspace_;
  long long counters_used_ = 0;
};

}  // namespace tessera::mlp
