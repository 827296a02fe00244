// SPDX-License-Identifier: Apache-2.0
// Operands, results and references of one rank whose peers are other processes. Each makes the operands of
// all ranks from the same seeds, and so knows what its own result should be.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/gemm_collectives/gemm_collective.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {

class RankCase {
 public:
  RankCase(std::shared_ptr<PeerGroup> group, Problem const& problem, unsigned seed = 1)
      : group_(std::move(group)), problem_(problem), rank_(group_->here().front()) {
    problem_.ranks = group_->size();
    auto const most = static_cast<std::size_t>(problem.rows);
    bool const shared = problem.collective == Collective::all_reduce;
    a_ = memory(2 * most * depth(), Reached::by_its_rank);
    b_ = memory(2 * columns() * depth(), Reached::by_its_rank);
    d_ = memory(2 * most * columns(), shared ? Reached::by_all : Reached::by_its_rank);
    reference_ = memory(4 * most * columns(), Reached::by_its_rank);
    make_reference(seed);
    fill(rank_, seed);
    poison();
  }

  std::vector<Operands> operands() const {
    std::vector<Operands> all(static_cast<std::size_t>(group_->size()));
    for (int rank = 0; rank < group_->size(); ++rank)
      all[static_cast<std::size_t>(rank)] = {a_->at(rank), b_->at(rank), d_->at(rank)};
    return all;
  }
  void poison() const {
    bench::poison(d_->at(rank_), static_cast<std::size_t>(problem_.rows) * columns(), stream_.get());
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  double error() const {
    if (elements() == 0) return 0;
    return bench::relative_error(d_->at(rank_), static_cast<float const*>(reference_->at(rank_)), elements(),
                                 problem_.type, stream_.get());
  }
  void* result() const { return d_->at(rank_); }
  /// The bits of the result, as text to tell others.
  std::string bits() const {
    std::string bytes(2 * elements(), '\0');
    gpu::ok(cudaMemcpy(bytes.data(), d_->at(rank_), bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
  }

 private:
  std::size_t columns() const { return static_cast<std::size_t>(problem_.local_columns()); }
  std::size_t depth() const { return static_cast<std::size_t>(problem_.local_depth()); }
  RowRange shard(int rank) const { return shard_of(problem_.rows, problem_.ranks, rank); }
  std::size_t elements() const {
    bool const scatters = problem_.collective == Collective::reduce_scatter;
    return static_cast<std::size_t>(scatters ? shard(rank_).rows() : problem_.rows) * columns();
  }
  std::unique_ptr<PeerMemory> memory(std::size_t bytes, Reached reached) const {
    return std::make_unique<PeerMemory>(PeerMemory::make(group_, bytes + 16, reached).value());
  }
  /// What a rank has, into this one's memory.
  void fill(int rank, unsigned seed) const {
    bool const gathers = problem_.collective == Collective::all_gather;
    auto const rows = static_cast<std::size_t>(gathers ? shard(rank).rows() : problem_.rows);
    auto const own = static_cast<unsigned>(rank);
    bench::fill_random(a_->at(rank_), rows * depth(), problem_.type, 100 * seed + own, 1, stream_.get());
    bench::fill_random(b_->at(rank_), columns() * depth(), problem_.type, 100 * seed + 50 + own,
                       1 / std::sqrt(static_cast<float>(problem_.depth)), stream_.get());
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  void product(void* to, int rows) const {
    if (rows == 0) return;
    bench::reference_gemm(a_->at(rank_), b_->at(rank_), static_cast<float*>(to), rows,
                          problem_.local_columns(), problem_.local_depth(), problem_.type, stream_.get());
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  void make_reference(unsigned seed) const {
    auto* const to = static_cast<float*>(reference_->at(rank_));
    if (problem_.collective == Collective::all_gather) {
      for (int source = 0; source < problem_.ranks; ++source) {
        fill(source, seed);
        // The columns of b are this rank's.
        bench::fill_random(b_->at(rank_), columns() * depth(), problem_.type,
                           100 * seed + 50 + static_cast<unsigned>(rank_),
                           1 / std::sqrt(static_cast<float>(problem_.depth)), stream_.get());
        product(to + static_cast<std::size_t>(shard(source).begin) * columns(), shard(source).rows());
      }
      return;
    }
    std::vector<float> sum(static_cast<std::size_t>(problem_.rows) * columns()), part(sum.size());
    for (int source = 0; source < problem_.ranks; ++source) {
      fill(source, seed);
      product(to, problem_.rows);
      gpu::ok(cudaMemcpy(part.data(), to, 4 * part.size(), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    bool const scatters = problem_.collective == Collective::reduce_scatter;
    auto const first = scatters ? static_cast<std::size_t>(shard(rank_).begin) * columns() : 0;
    gpu::ok(cudaMemcpy(to, sum.data() + first, 4 * elements(), cudaMemcpyHostToDevice));
  }

  std::shared_ptr<PeerGroup> group_;
  Problem problem_;
  int rank_ = 0;
  gpu::Stream stream_;
  std::unique_ptr<PeerMemory> a_, b_, d_, reference_;
};

}  // namespace tessera::gemm_collectives
