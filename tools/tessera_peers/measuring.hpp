// SPDX-License-Identifier: Apache-2.0
// What ways of a product with its collective take and compute, beside the libraries in the same run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "asked.hpp"
#include "kernels/gemm_collectives/gang.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "kernels/gemm_collectives/ways_table.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::command {

struct Finalist {
  gemm_collectives::Options options;
  gemm_collectives::WayMeasured row;
};

struct Measured {
  std::vector<Finalist> finalists;
  /// Theirs, then what is alone, and the wire.
  std::vector<gemm_collectives::WayMeasured> rows;
};

/// Throws where CUDA fails, and what is refused.
class Measuring {
 public:
  Measuring(Asked const& asked, std::shared_ptr<PeerGroup> group);

  /// GPUs that are apart cannot begin together: by the host's clock, calls behind each other.
  std::vector<gemm_collectives::WayMeasured> apart() const;
  /// All that is worth a try, the fastest first.
  std::vector<gemm_collectives::Tried> tried() const;
  /// In turns in one run.
  Measured in_turns(std::vector<gemm_collectives::Options> const& options) const;

 private:
  int calls() const { return asked_.quick ? 3 : 6; }
  int rounds() const { return asked_.quick ? 3 : 11; }
  std::vector<cudaStream_t> streams() const;
  /// How far off its results are.
  double error_of(gemm_collectives::GemmCollective& product) const;

  Asked const& asked_;
  std::shared_ptr<PeerGroup> group_;
  gemm_collectives::OperandRing sets_;
  std::vector<std::unique_ptr<gpu::Stream>> streams_;
};

/// The fastest of each way.
std::vector<gemm_collectives::Options> fastest_of_each_way(std::vector<gemm_collectives::Tried> const& tried);

}  // namespace tessera::command
