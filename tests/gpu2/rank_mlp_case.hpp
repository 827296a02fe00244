// SPDX-License-Identifier: Apache-2.0
// Operands, result and reference of one rank's part of an MLP whose other parts are other processes'. Each
// makes the weights of all ranks from the same seeds, and so knows what its own result should be.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/common/mlp_reference.hpp"
#include "kernels/gemm_collectives/parallel_mlp.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {

class RankMlpCase {
 public:
  RankMlpCase(std::shared_ptr<PeerGroup> group, MlpProblem const& problem)
      : group_(std::move(group)), problem_(problem), rank_(group_->here().front()) {
    auto const local = static_cast<std::size_t>(problem.local_hidden());
    auto const first = static_cast<std::size_t>(problem.local_columns());
    x_ = memory(2 * tokens() * model() + 16);  // a rank without tokens points behind them
    w1_ = memory(2 * first * model());
    w2_ = memory(2 * local * model());
    h_ = memory(2 * tokens() * local);
    sums_ = memory(4 * tokens() * first);
    reference_ = memory(4 * tokens() * model());
    // Peers store into an all-reduce's.
    y_ = memory(2 * tokens() * model() + 16,
                problem.rows == Tokens::whole ? Reached::by_all : Reached::by_its_rank);
    bench::fill_random(x_->at(rank_), tokens() * model(), problem.type, 1, 1, stream_.get());
    make_reference();
    fill_weights(rank_);
    poison();
  }

  std::vector<MlpOperands> operands() const {
    std::vector<MlpOperands> all(static_cast<std::size_t>(group_->size()));
    for (int rank = 0; rank < group_->size(); ++rank) all[static_cast<std::size_t>(rank)].y = y_->at(rank);
    auto const* const x = static_cast<unsigned short const*>(x_->at(rank_));
    all[static_cast<std::size_t>(rank_)] = {x + first_element(), w1_->at(rank_), w2_->at(rank_),
                                            y_->at(rank_)};
    return all;
  }
  void poison() const {
    bench::poison(y_->at(rank_), tokens() * model(), stream_.get());
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  double error() const {
    auto const count = static_cast<std::size_t>(own().rows()) * model();
    if (count == 0) return 0;
    return bench::relative_error(y_->at(rank_),
                                 static_cast<float const*>(reference_->at(rank_)) + first_element(), count,
                                 problem_.type, stream_.get());
  }

 private:
  std::size_t tokens() const { return static_cast<std::size_t>(problem_.tokens); }
  std::size_t model() const { return static_cast<std::size_t>(problem_.model); }
  RowRange own() const {
    return problem_.rows == Tokens::whole ? RowRange{0, problem_.tokens}
                                          : shard_of(problem_.tokens, problem_.ranks, rank_);
  }
  std::size_t first_element() const { return static_cast<std::size_t>(own().begin) * model(); }
  std::unique_ptr<PeerMemory> memory(std::size_t bytes, Reached reached = Reached::by_its_rank) const {
    return std::make_unique<PeerMemory>(PeerMemory::make(group_, bytes, reached).value());
  }
  void fill_weights(int rank) const {
    auto const fill = [&](PeerMemory const& to, unsigned long long seed, int depth) {
      bench::fill_random(to.at(rank_), to.bytes() / 2, problem_.type, seed,
                         1 / std::sqrt(static_cast<float>(depth)), stream_.get());
    };
    fill(*w1_, 10 + static_cast<unsigned>(rank), problem_.model);
    fill(*w2_, 20 + static_cast<unsigned>(rank), problem_.hidden);
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  void make_reference() const {
    std::vector<float> sum(tokens() * model()), part(sum.size());
    auto* const to = static_cast<float*>(reference_->at(rank_));
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      fill_weights(rank);
      mlp::Shape const shape{problem_.tokens, problem_.model, problem_.local_hidden(), problem_.form,
                             problem_.type};
      mlp::reference_mlp(shape, {x_->at(rank_), w1_->at(rank_), h_->at(rank_), w2_->at(rank_), nullptr},
                         static_cast<float*>(sums_->at(rank_)), nullptr, to, true, stream_.get());
      gpu::ok(cudaStreamSynchronize(stream_.get()));
      gpu::ok(cudaMemcpy(part.data(), to, 4 * part.size(), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    gpu::ok(cudaMemcpy(to, sum.data(), 4 * sum.size(), cudaMemcpyHostToDevice));
  }

  std::shared_ptr<PeerGroup> group_;
  MlpProblem problem_;
  int rank_ = 0;
  gpu::Stream stream_;
  std::unique_ptr<PeerMemory> x_, w1_, w2_, h_, sums_, reference_, y_;
};

}  // namespace tessera::gemm_collectives
