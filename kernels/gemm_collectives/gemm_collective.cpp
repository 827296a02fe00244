// SPDX-License-Identifier: Apache-2.0
#include "gemm_collective.hpp"

#include <algorithm>
#include <deque>
#include <string>

#include "collective_state.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::gemm_collectives {

Expected<GemmCollective> GemmCollective::make(std::shared_ptr<PeerGroup> group, Problem problem,
                                              Options const& options) {
  problem.ranks = group->size();
  if (auto done = check_problem(problem); !done) return tl::make_unexpected(done.error());
  if (!(options.deadline_seconds > 0 && options.deadline_seconds <= 3600))
    return refusal("E0581", "a deadline that is no time", "ask for more than 0 and at most 3600 seconds",
                   {to_string(problem)});
  auto state = std::make_shared<State>();
  state->group = std::move(group);
  state->problem = problem;
  state->way = options.way == Way::automatic ? choose_way(problem) : options.way;
  state->deadline_s = options.deadline_seconds;
  if (options.parts < 0 || options.parts > k_most_parts)
    return refusal("E0581", std::to_string(options.parts) + " parts of a shard",
                   "ask for 1 to " + std::to_string(k_most_parts) + ", or 0: as the library chooses",
                   {to_string(problem)});
  if (state->way == Way::add) state->parts = options.parts > 0 ? options.parts : 2;
  auto const ways = ways_of(problem);
  if (std::find(ways.begin(), ways.end(), state->way) == ways.end())
    return refusal(
        "E0581", std::string(to_string(problem.collective)) + " has no way \"" + to_string(state->way) + "\"",
        "leave the way to the library", {to_string(problem)});
  if (state->way == Way::sequential) {
    std::string why;
    state->nccl = state->group->nccl(why);
    if (state->nccl == nullptr)
      return refusal("E0583", "NCCL is not there: " + why,
                     "let the linker find libnccl.so.2 (LD_LIBRARY_PATH), or take another way",
                     {to_string(problem)});
  }
  gpu::RelaxedCapture const relaxed;
  try {
    if (auto done = state->make_pieces(options.kernel); !done) return tl::make_unexpected(done.error());
    if (auto done = state->make_memory(); !done) return tl::make_unexpected(done.error());
    state->make_ranks();
    if (auto done = state->warm_up(); !done) return tl::make_unexpected(done.error());
  } catch (std::exception const& error) {
    return failed(error);
  }
  return GemmCollective(std::move(state));
}

Expected<void> GemmCollective::enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  auto& state = *state_;
  try {
    if (auto done = state.check(operands); !done) return done;
    if (auto done = state.go_on(); !done) return done;
    if (auto done = state.nothing_else_stalled({stream}); !done) return done;
    state.prepare(operands);
    gpu::PeerOrder::Turn const turn(state.group->order(), rank, stream);
    state.unbroken([&] { state.enqueue(rank, operands, stream); });
    return {};
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Expected<void> GemmCollective::run(std::vector<Operands> const& operands,
                                   std::vector<cudaStream_t> const& streams) {
  try {
    auto& state = *state_;
    if (auto done = state.check(operands); !done) return done;
    if (streams.size() != operands.size())
      return refusal(
          "E0581", std::to_string(streams.size()) + " streams for " + std::to_string(state.count()) + " GPUs",
          "give a stream for each rank of the group", {to_string(state.problem)});
    if (auto done = state.recover_first(streams); !done) return done;
    if (auto done = state.nothing_else_stalled(streams); !done) return done;
    state.prepare(operands);
    std::deque<gpu::PeerOrder::Turn> turns;
    for (int rank = 0; rank < state.count(); ++rank)
      turns.emplace_back(state.group->order(), rank, streams[static_cast<std::size_t>(rank)]);
    state.unbroken([&] { state.enqueue_all(operands, streams); });
    return {};
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Expected<void> GemmCollective::finish() {
  try {
    return state_->recover();
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Problem const& GemmCollective::problem() const { return state_->problem; }
Way GemmCollective::way() const { return state_->way; }
std::string GemmCollective::name() const {
  auto name = std::string(to_string(state_->way)) + ", " + state_->pieces.begin()->second.name();
  if (state_->parts > 1) name += ", parts: " + std::to_string(state_->parts);
  return name;
}

}  // namespace tessera::gemm_collectives
