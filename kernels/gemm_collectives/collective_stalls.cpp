// SPDX-License-Identifier: Apache-2.0
// A rank that did not come: who waited for what, and a new beginning. What calls are given.
#include <cstdint>
#include <string>
#include <tessera/communicate/reach.hpp>
#include <tuple>

#include "collective_state.hpp"
#include "operand_memory.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::gemm_collectives {

bool GemmCollective::stalled() const { return state_->stalled(); }
bool GemmCollective::State::stalled() const {
  return std::any_of(ranks.begin(), ranks.end(), [](Rank const& one) { return one.told->raised(); });
}

Expected<void> GemmCollective::State::recover() {
  gpu::RelaxedCapture const relaxed;
  if (auto waited = group->wait(); !waited) return waited;
  if (!stalled() && !broken) return {};
  Diagnostics found;
  for (int rank = 0; rank < count(); ++rank) {
    Select const current(group->device(rank));
    StallRecord seen;
    auto const stream = ranks[static_cast<std::size_t>(rank)].side->get();
    ok(cudaMemcpyAsync(&seen, record(rank), sizeof seen, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    if (seen.state != 2) continue;
    PeerStall stall;
    stall.operation = to_string(problem);
    stall.rank = rank;
    stall.peer = static_cast<int>(seen.semaphore);
    stall.seen = seen.seen;
    stall.expected = seen.expected;
    stall.waited_s = static_cast<double>(seen.waited_ns) * 1e-9;
    stall.tile = seen.tile;
    stall.tiles = parts;
    switch (static_cast<PeerWord>(seen.stage)) {
      case PeerWord::arrived: stall.awaited = "what it sends"; break;
      case PeerWord::done: stall.awaited = "that it has read what it was sent"; break;
      case PeerWord::begun: stall.awaited = "that it begins"; break;
      case PeerWord::partial_words:
        stall.awaited = "its partial sums";
        stall.peer = static_cast<int>(seen.tile % k_most_ranks);
        stall.tile = seen.tile / k_most_ranks;
        stall.tiles = parts_of_words(1LL * problem.rows * problem.columns);
        break;
    }
    found.push_back(describe_stall(stall));
  }
  if (auto cleared = shared->clear(); !cleared) return cleared;
  arm();
  for (auto& one : ranks) one.told->lower();
  broken = false;
  if (found.empty()) return {};
  return tl::make_unexpected(std::move(found));
}

Expected<void> GemmCollective::State::go_on() const {
  if (!stalled() && !broken) return {};
  return refusal("E0582",
                 to_string(problem) + (stalled() ? ": a launch before has stalled"
                                                 : ": a call before has failed on some ranks only"),
                 "call finish() once for all ranks, and then make the call again on each; a stream that is "
                 "captured: when its capture has ended");
}

Expected<void> GemmCollective::State::nothing_else_stalled(std::vector<cudaStream_t> const& streams) const {
  auto const& mine = *ranks.front().told;
  if (!mine.another_raised()) return {};
  for (auto* const stream : streams) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    if (status != cudaStreamCaptureStatusNone) return {};  // nothing is read now
  }
  auto const name = mine.hear_of_another();
  if (name.empty()) return {};
  return refusal("E0520",
                 "an earlier launch of " + name + " gave up: " + to_string(problem) +
                     " may have read what it did not write",
                 "compute again from the launch that gave up; its own finish() names the tile that waited",
                 {"said once, by the first call of the thread that launched both"});
}

Expected<void> GemmCollective::State::recover_first(std::vector<cudaStream_t> const& streams) {
  if (!stalled() && !broken) return {};
  for (auto* const stream : streams) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    if (status != cudaStreamCaptureStatusNone) return go_on();
  }
  return recover();
}

Expected<void> GemmCollective::State::check(std::vector<Operands> const& operands) const {
  gpu::RelaxedCapture const relaxed;
  if (operands.size() != static_cast<std::size_t>(count()))
    return refusal(
        "E0581",
        "operands of " + std::to_string(operands.size()) + " ranks for " + std::to_string(count()) + " GPUs",
        "give operands for each rank of the group", {to_string(problem)});
  for (int rank = 0; rank < count(); ++rank) {
    auto const& one = operands[static_cast<std::size_t>(rank)];
    bool const gathers = problem.collective == Collective::all_gather;
    bool const scatters = problem.collective == Collective::reduce_scatter;
    // A rank may own no rows.
    bool const owns = shard(rank).rows() > 0;
    auto const fits = [](void const* memory, bool needed) {
      return (memory != nullptr || !needed) && reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
    };
    if (!fits(one.a, owns || !gathers) || !fits(one.b, true) || !fits(one.d, owns || !scatters))
      return refusal("E0581",
                     "an operand of rank " + std::to_string(rank) + " is missing or not 16-byte aligned",
                     "give a, b and d in the memory of its GPU", {to_string(problem)});
    bool const by_peers =
        problem.collective == Collective::all_reduce && way != Way::words && way != Way::sequential;
    for (auto const& [name, memory, stored] : {std::tuple{"a", one.a, false}, std::tuple{"b", one.b, false},
                                               std::tuple{"d", static_cast<void const*>(one.d), by_peers}})
      if (memory != nullptr)
        if (auto done = check_memory(*group, rank, name, memory, stored, to_string(problem)); !done)
          return done;
  }
  return {};
}

}  // namespace tessera::gemm_collectives
