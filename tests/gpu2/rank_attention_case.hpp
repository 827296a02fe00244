// SPDX-License-Identifier: Apache-2.0
// Operands and result of one rank's part of an attention block whose other parts are other processes'. Each
// computes the whole block, and so knows what its own result should be.
#pragma once

#include <memory>

#include "src/gpu/stream.hpp"
#include "whole_attention.hpp"

namespace tessera::gemm_collectives {

class RankAttentionCase {
 public:
  RankAttentionCase(std::shared_ptr<PeerGroup> group, AttentionProblem const& problem)
      : problem_(problem), rank_(group->here().front()), ranks_(group->size()), whole_(problem, 1) {
    auto const put = [](auto const& all, auto& to) {
      to = std::make_unique<std::decay_t<decltype(*to)>>(all.size() + 8);
      to->upload(all);
    };
    put(whole_.x, x_);
    put(whole_.w_in(rank_), w_in_);
    put(whole_.w_out(rank_), w_out_);
    put(whole_.turns, turns_);
    // Peers store into an all-reduce's.
    auto const reached = problem.rows == Tokens::whole ? Reached::by_all : Reached::by_its_rank;
    y_ = std::make_unique<PeerMemory>(
        PeerMemory::make(std::move(group), 2 * whole_.x.size() + 16, reached).value());
    poison();
  }

  std::vector<AttentionOperands> operands() const {
    std::vector<AttentionOperands> all(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) all[static_cast<std::size_t>(rank)].y = y_->at(rank);
    all[static_cast<std::size_t>(rank_)] = {
        x_->get() + static_cast<std::ptrdiff_t>(own().begin) * problem_.model, w_in_->get(), w_out_->get(),
        y_->at(rank_), turns_->get()};
    return all;
  }
  void poison() const {
    bench::poison(y_->at(rank_), whole_.x.size(), stream_.get());
    gpu::ok(cudaStreamSynchronize(stream_.get()));
  }
  double error() const { return whole_.error(y_->at(rank_), own(), stream_.get()); }

 private:
  RowRange own() const {
    return problem_.rows == Tokens::whole ? RowRange{0, problem_.tokens}
                                          : shard_of(problem_.tokens, ranks_, rank_);
  }

  AttentionProblem problem_;
  int rank_, ranks_;
  WholeAttention whole_;
  gpu::Stream stream_;
  std::unique_ptr<gpu::DeviceBuffer<unsigned short>> x_, w_in_, w_out_;
  std::unique_ptr<gpu::DeviceBuffer<float2>> turns_;
  std::unique_ptr<PeerMemory> y_;
};

}  // namespace tessera::gemm_collectives
