// SPDX-License-Identifier: Apache-2.0
#include "alone.hpp"

#include <algorithm>

#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/nccl.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;

Alone::Alone(std::shared_ptr<PeerGroup> const& group, Problem const& problem, OperandRing const& operands,
             PieceKernel const& kernel, int calls)
    : group_(group), problem_(problem), operands_(operands), calls_(calls) {
  for (int rank = 0; rank < group->size(); ++rank) {
    Select const current(group->device(rank));
    sides_.emplace_back();
    pieces_.push_back(must(Piece::make(
        {problem.rows, problem.local_columns(), problem.local_depth(), problem.type, problem.gelu}, kernel)));
  }
  auto const ranks = static_cast<std::size_t>(problem.ranks);
  auto const rows = static_cast<std::size_t>(most_shard_rows(problem.rows, problem.ranks)) * ranks;
  auto const wide = static_cast<std::size_t>(std::max(problem.local_columns(), problem.local_depth()));
  std::size_t workspace = 1;
  for (auto const& piece : pieces_) workspace = std::max(workspace, piece.workspace_bytes());
  for (std::size_t const bytes : {workspace, 2 * rows * wide, 2 * rows * wide})
    scratch_.push_back(must(PeerMemory::make(group, bytes)));
  timed_.push_back(
      {"gemm", [this](std::vector<cudaStream_t> const& streams, int set) { return product(streams, set); }});
  if (group->apart().empty()) {
    constexpr std::size_t k_word = 16;
    auto const all = std::min(static_cast<std::size_t>(wire_bytes(problem_)), scratch_[2].bytes());
    for (auto const& [name, bytes] : {std::pair{k_beside_nothing, k_word}, {k_beside_copies, all}}) {
      auto& timed = timed_.emplace_back();
      timed.name = name;
      timed.work = [this, sent = bytes](std::vector<cudaStream_t> const& streams, int) {
        return products_beside(sent, streams);
      };
      timed.pieces = calls_;
      timed.clock = [this] { return products_us(); };
    }
  }
  std::string why;
  auto const* const nccl = group->nccl(why);
  if (nccl == nullptr) return;
  timed_.push_back({"nccl", [this, nccl](std::vector<cudaStream_t> const& streams, int) {
                      return collective(*nccl, streams);
                    }});
}

Expected<void> Alone::product(std::vector<cudaStream_t> const& streams, int set) {
  auto const operands = operands_.of(set);
  for (std::size_t at = 0; at < streams.size(); ++at) {
    int const rank = static_cast<int>(at);
    Select const current(group_->device(rank));
    // Of all rows: the own ones stand in for those that would have come.
    auto const& mine = operands[at];
    auto const done = pieces_[at].run({mine.a, mine.b, scratch_[1].at(rank)}, scratch_[0].at(rank), false,
                                      false, streams[at]);
    if (!done) return done;
  }
  return {};
}

Expected<void> Alone::products_beside(std::size_t bytes, std::vector<cudaStream_t> const& streams) {
  for (std::size_t at = 0; at < streams.size(); ++at) {
    int const rank = static_cast<int>(at);
    Select const current(group_->device(rank));
    auto& side = sides_[at];
    side.fork.put(streams[at], side.stream.get());
    for (int call = 0; call < calls_; ++call)
      ok(cudaMemcpyAsync(scratch_[2].at(send_order(problem_.ranks, rank, 0)), scratch_[1].at(rank), bytes,
                         cudaMemcpyDefault, side.stream.get()));
    side.timer.begin(streams[at]);
  }
  Expected<void> done;
  for (int call = 0; call < calls_ && done; ++call) done = product(streams, call % operands_.count());
  for (std::size_t at = 0; at < streams.size(); ++at) {
    Select const current(group_->device(static_cast<int>(at)));
    sides_[at].timer.end(streams[at]);
    sides_[at].join.put(sides_[at].stream.get(), streams[at]);
  }
  return done;
}

double Alone::products_us() const {
  double longest = 0;
  for (auto const& side : sides_) longest = std::max(longest, side.timer.us());
  return longest / calls_;
}

Expected<void> Alone::collective(gpu::Nccl const& nccl, std::vector<cudaStream_t> const& streams) {
  auto const each = static_cast<std::size_t>(slot_elements(problem_));
  auto const all = static_cast<std::size_t>(problem_.rows) * static_cast<std::size_t>(problem_.columns);
  auto const kind = problem_.type == ElementType::bf16 ? gpu::Nccl::Type::bf16 : gpu::Nccl::Type::fp16;
  gpu::Nccl::Group calls(nccl);
  for (std::size_t at = 0; at < streams.size(); ++at) {
    int const rank = static_cast<int>(at);
    Select const current(group_->device(rank));
    void *from = scratch_[1].at(rank), *into = scratch_[2].at(rank);
    switch (problem_.collective) {
      case Collective::all_reduce: nccl.all_reduce(rank, from, into, all, kind, streams[at]); break;
      case Collective::reduce_scatter: nccl.reduce_scatter(rank, from, into, each, kind, streams[at]); break;
      case Collective::all_gather: nccl.all_gather(rank, from, into, each, kind, streams[at]); break;
    }
  }
  calls.end();
  return {};
}

}  // namespace tessera::gemm_collectives
