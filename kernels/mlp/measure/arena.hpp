// SPDX-License-Identifier: Apache-2.0
// Operands to measure candidates on: several sets, together larger than the L2 cache, with references.
#pragma once

#include <memory>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/mlp/candidate.hpp"

namespace tessera::mlp {

class Arena {
 public:
  /// Memory and random operands for up to `most.tokens`. E0511.
  static Expected<std::unique_ptr<Arena>> make(Shape const& most, cudaStream_t stream);
  ~Arena();
  Arena(Arena const&) = delete;
  Arena& operator=(Arena const&) = delete;

  int sets() const { return static_cast<int>(operands_.size()); }
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
  Expected<double> read_bandwidth();

 private:
  struct Operands {
    void* x = nullptr;
    void* w1 = nullptr;
    void* w2 = nullptr;
    void* y = nullptr;
  };
  struct Reference {
    float* h = nullptr;
    float* y = nullptr;
  };

  Arena(Shape const& most, cudaStream_t stream) : most_(most), shape_(most), stream_(stream) {}
  Expected<void> allocate_all();
  template <class T>
  bool allocate(T*& memory, std::size_t bytes);
  Buffers buffers(int set) const {
    return {operands_[set].x, operands_[set].w1, h_, operands_[set].w2, operands_[set].y};
  }

  Shape most_;
  Shape shape_;
  cudaStream_t stream_;
  std::vector<Operands> operands_;
  std::vector<Reference> references_[2];  ///< with fp32 gate and up; with rounded ones (swiglu only)
  void* h_ = nullptr;
  float* wide_ = nullptr;
  Workspace workspace_;
  long long counters_used_ = 0;
  std::vector<void*> memory_;
};

}  // namespace tessera::mlp
