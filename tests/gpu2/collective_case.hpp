// SPDX-License-Identifier: Apache-2.0
// Operands, results and references of a product with its collective on the GPUs of a group.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/gemm_collectives/gemm_collective.hpp"
#include "some_gpus.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/event_timer.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;

/// Random operands of all ranks, and what the ranks' results should be, in fp32 without tensor cores.
class CollectiveCase {
 public:
  CollectiveCase(SomeGpus const& gpus, Problem const& problem, unsigned seed = 1)
      : gpus_(gpus), problem_(problem), a_rows_(gpus.count()), d_rows_(gpus.count()) {
    problem_.ranks = gpus.count();
    for (int const rank : gpus_.ranks()) {
      auto const own = shard_of(problem.rows, gpus.count(), rank).rows();
      bool const gathers = problem.collective == Collective::all_gather;
      a_rows_[rank] = gathers ? own : problem.rows;
      d_rows_[rank] = problem.collective == Collective::reduce_scatter ? own : problem.rows;
    }
    std::size_t const most = static_cast<std::size_t>(problem.rows);
    a_ = memory(2 * most * depth());
    b_ = memory(2 * columns() * depth());
    d_ = memory(2 * most * columns());
    for (int const rank : gpus_.ranks()) {
      Select const current(rank);
      bench::fill_random(a_->at(rank), a_elements(rank), problem.type, 100 * seed + unsigned(rank), 1,
                         gpus.stream(rank));
      bench::fill_random(b_->at(rank), columns() * depth(), problem.type, 100 * seed + 50 + unsigned(rank),
                         1 / std::sqrt(float(problem.depth)), gpus.stream(rank));
      ok(cudaStreamSynchronize(gpus.stream(rank)));
    }
    make_references();
    poison();
  }

  std::vector<Operands> operands() const {
    std::vector<Operands> all;
    for (int const rank : gpus_.ranks()) all.push_back({a_->at(rank), b_->at(rank), d_->at(rank)});
    return all;
  }
  void poison() const {
    for (int const rank : gpus_.ranks()) {
      Select const current(rank);
      bench::poison(d_->at(rank), static_cast<std::size_t>(problem_.rows) * columns(), gpus_.stream(rank));
      ok(cudaStreamSynchronize(gpus_.stream(rank)));
    }
  }
  double error(int rank) const {
    if (d_elements(rank) == 0) return 0;
    Select const current(rank);
    return bench::relative_error(d_->at(rank), static_cast<float const*>(references_->at(rank)),
                                 d_elements(rank), problem_.type, gpus_.stream(rank));
  }
  std::vector<unsigned short> result(int rank) const {
    Select const current(rank);
    std::vector<unsigned short> bits(d_elements(rank));
    ok(cudaMemcpy(bits.data(), d_->at(rank), 2 * bits.size(), cudaMemcpyDeviceToHost));
    return bits;
  }
  /// Of the rank that has the most, which is the first.
  std::size_t result_elements() const { return d_elements(0); }
  /// Behind the last row that a rank owns: nobody may write there.
  bool left_alone(int rank) const {
    Select const current(rank);
    auto const all = static_cast<std::size_t>(problem_.rows) * columns();
    return bench::not_poisoned(static_cast<unsigned short*>(d_->at(rank)) + d_elements(rank),
                               all - d_elements(rank), gpus_.stream(rank)) == 0;
  }
  void expect_right(std::string const& what) const {
    for (int const rank : gpus_.ranks()) {
      EXPECT_LT(error(rank), 6e-3) << what << ", rank " << rank;
      EXPECT_TRUE(left_alone(rank)) << what << ", rank " << rank;
    }
    if (problem_.collective != Collective::all_reduce) return;
    auto const first = result(0);
    for (int const rank : gpus_.ranks())
      EXPECT_TRUE(first == result(rank)) << what << ": ranks 0 and " << rank << " differ";
  }

 private:
  std::size_t columns() const { return static_cast<std::size_t>(problem_.local_columns()); }
  std::size_t depth() const { return static_cast<std::size_t>(problem_.local_depth()); }
  std::size_t a_elements(int rank) const { return static_cast<std::size_t>(a_rows_[rank]) * depth(); }
  std::size_t d_elements(int rank) const { return static_cast<std::size_t>(d_rows_[rank]) * columns(); }
  std::unique_ptr<PeerMemory> memory(std::size_t bytes) const {
    return std::make_unique<PeerMemory>(PeerMemory::make(gpus_.group, bytes + 16).value());
  }

  void make_references() {
    auto const rows = static_cast<std::size_t>(problem_.rows);
    references_ = memory(4 * rows * columns());
    if (problem_.collective == Collective::all_gather) {
      for (int const rank : gpus_.ranks())
        for (int const source : gpus_.ranks()) {
          auto const shard = shard_of(problem_.rows, gpus_.count(), source);
          if (shard.rows() == 0) continue;
          Select const current(rank);
          bench::reference_gemm(
              a_->at(source), b_->at(rank),
              static_cast<float*>(references_->at(rank)) + static_cast<std::size_t>(shard.begin) * columns(),
              shard.rows(), problem_.local_columns(), problem_.depth, problem_.type, gpus_.stream(rank));
          ok(cudaStreamSynchronize(gpus_.stream(rank)));
        }
      return;
    }
    std::vector<float> sum(rows * columns()), part(sum.size());
    for (int const source : gpus_.ranks()) {
      Select const current(source);
      auto* const here = static_cast<float*>(references_->at(source));
      bench::reference_gemm(a_->at(source), b_->at(source), here, problem_.rows, problem_.columns,
                            problem_.local_depth(), problem_.type, gpus_.stream(source));
      ok(cudaStreamSynchronize(gpus_.stream(source)));
      ok(cudaMemcpy(part.data(), here, 4 * part.size(), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (int const rank : gpus_.ranks()) {
      Select const current(rank);
      bool const scatters = problem_.collective == Collective::reduce_scatter;
      auto const first =
          scatters ? static_cast<std::size_t>(shard_of(problem_.rows, gpus_.count(), rank).begin) : 0;
      if (d_elements(rank) > 0)
        ok(cudaMemcpy(references_->at(rank), sum.data() + first * columns(), 4 * d_elements(rank),
                      cudaMemcpyHostToDevice));
    }
  }

  SomeGpus const& gpus_;
  Problem problem_;
  PerRank<int> a_rows_, d_rows_;
  std::unique_ptr<PeerMemory> a_, b_, d_, references_;
};

}  // namespace tessera::gemm_collectives
