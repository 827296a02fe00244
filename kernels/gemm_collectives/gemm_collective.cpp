// SPDX-License-Identifier: Apache-2.0
#include "gemm_collective.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <tessera/communicate/reach.hpp>
#include <tessera/ranks/pack.hpp>

#include "collective_state.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/relaxed_capture.hpp"
#include "waves.hpp"

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
  state->deadline_s = options.deadline_seconds;
  if (auto done = state->take_way(options); !done) return tl::make_unexpected(done.error());
  auto const mine = state->make_own(state->kernel_of(options));
  if (auto done = state->make_with_others(mine); !done) return tl::make_unexpected(done.error());
  return GemmCollective(std::move(state));
}

Expected<void> GemmCollective::State::take_way(Options const& options) {
  way = options.way;
  bool const apart = !group->apart().empty();
  std::string why;
  if (way == Way::automatic) {
    way = apart ? Way::sequential : choose_way(problem);
    if (way == Way::sequential && !apart && group->nccl(why) == nullptr) way = choose_way(problem, false);
  }
  if (options.parts < 0 || options.parts > k_most_parts)
    return refusal("E0581", std::to_string(options.parts) + " parts of a shard",
                   "ask for 1 to " + std::to_string(k_most_parts) + ", or 0: as the library chooses",
                   {to_string(problem)});
  if (way == Way::add) parts = options.parts > 0 ? options.parts : 2;
  auto const ways = ways_of(problem);
  if (std::find(ways.begin(), ways.end(), way) == ways.end())
    return refusal("E0581",
                   std::string(to_string(problem.collective)) + " has no way \"" + to_string(way) + "\"",
                   "leave the way to the library", {to_string(problem)});
  if (way != Way::sequential) {
    if (!apart) return {};
    return refuse(needs_reach(std::string("the way \"") + to_string(way) + "\"", group->apart()));
  }
  nccl = group->nccl(why);
  if (nccl != nullptr) return {};
  return refusal(
      "E0583", "NCCL is not there: " + why,
      apart ? "let the linker find libnccl.so.2 (LD_LIBRARY_PATH): no other way is left, as " + group->apart()
            : "let the linker find libnccl.so.2 (LD_LIBRARY_PATH), or take another way",
      {to_string(problem)});
}

PieceKernel GemmCollective::State::kernel_of(Options const& options) const {
  auto const& asked = options.kernel;
  bool const named = asked.tiles != nullptr || asked.few >= 0 || !asked.algorithm.empty();
  if (named || options.way != Way::automatic || way != Way::store) return asked;
  // The shards' products share the SMs.
  if (!fills_its_waves(problem.rows, problem.columns)) return asked;
  return storing_kernel({shard(0).rows(), problem.local_columns(), problem.local_depth(), problem.type});
}

Expected<void> GemmCollective::State::make_own(PieceKernel const& kernel) {
  gpu::RelaxedCapture const relaxed;
  try {
    if (auto done = make_pieces(kernel); !done) return done;
    if (auto done = make_own_memory(); !done) return done;
    make_ranks();
    return warm_up();
  } catch (std::exception const& error) {
    return failed(error);
  }
}

std::string GemmCollective::State::name() const {
  auto name = std::string(to_string(way));
  if (!group->apart().empty()) name += " (" + group->apart() + ")";
  if (way == Way::fused) {
    auto const plan = fused_plan(problem.rows, problem.columns);
    return name + ", " + std::to_string(plan.blocks) + " blocks of " + std::to_string(plan.tiles) +
           " tiles x " + std::to_string(plan.splits) +
           (plan.passes > 1 ? ", passes: " + std::to_string(plan.passes) : "");
  }
  name += ", " + pieces.begin()->second.name();
  if (parts > 1) name += ", parts: " + std::to_string(parts);
  return name;
}

Expected<void> GemmCollective::State::make_with_others(Expected<void> const& mine) {
  // What one rank cannot make no rank has; and they agree on what it is.
  if (group->of_processes()) {
    auto const type = problem.type == ElementType::bf16 ? "bf16" : "fp16";
    auto const what = to_string(problem) + " of " + type + " by " + to_string(way) +
                      (parts > 1 ? ", parts: " + std::to_string(parts) : "");
    auto const told = group->exchange(what, mine ? "" : pack(mine.error()));
    if (!told) return tl::make_unexpected(told.error());
    for (std::size_t rank = 0; mine && rank < told->size(); ++rank) {
      auto why = unpack_diagnostics((*told)[rank]);
      if (why.empty()) continue;
      why.front().message = "rank " + std::to_string(rank) + ": " + why.front().message;
      return tl::make_unexpected(std::move(why));
    }
  }
  if (!mine) return mine;
  gpu::RelaxedCapture const relaxed;
  return make_shared_memory();
}

Expected<void> GemmCollective::enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  auto& state = *state_;
  try {
    if (auto done = state.check(operands); !done) return done;
    if (!state.group->has(rank))
      return refusal("E0581", "rank " + std::to_string(rank) + " is not of this process",
                     "let each process enqueue for its own rank", {to_string(state.problem)});
    if (auto done = state.check(rank, stream); !done) return done;
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
    auto const& here = state.group->here();
    if (streams.size() != here.size())
      return refusal("E0581",
                     std::to_string(streams.size()) + " streams for " + std::to_string(here.size()) + " GPUs",
                     "give a stream for each rank of this process", {to_string(state.problem)});
    for (std::size_t i = 0; i < here.size(); ++i)
      if (auto done = state.check(here[i], streams[i]); !done) return done;
    if (auto done = state.recover_first(streams); !done) return done;
    if (auto done = state.nothing_else_stalled(streams); !done) return done;
    state.prepare(operands);
    std::deque<gpu::PeerOrder::Turn> turns;
    for (std::size_t i = 0; i < here.size(); ++i)
      turns.emplace_back(state.group->order(), here[i], streams[i]);
    state.unbroken([&] { state.enqueue_all(operands, streams); });
    return {};
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Expected<void> GemmCollective::finish() {
  auto own = finish_own();
  return own ? hear_of_others() : own;
}
Expected<void> GemmCollective::hear_of_others() const { return state_->nothing_else_stalled({}); }
Expected<void> GemmCollective::finish_own() {
  try {
    return state_->recover();
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Problem const& GemmCollective::problem() const { return state_->problem; }
Way GemmCollective::way() const { return state_->way; }
std::string GemmCollective::name() const { return state_->name(); }

}  // namespace tessera::gemm_collectives
