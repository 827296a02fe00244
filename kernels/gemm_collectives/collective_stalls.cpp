// SPDX-License-Identifier: Apache-2.0
// A rank that did not come: who waited for what, and a new beginning. What calls are given.
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <tessera/communicate/reach.hpp>
#include <tessera/ranks/pack.hpp>
#include <tuple>

#include "collective_state.hpp"
#include "operand_memory.hpp"
#include "src/gpu/relaxed_capture.hpp"

namespace tessera::gemm_collectives {

bool GemmCollective::stalled() const { return state_->stalled(); }
bool GemmCollective::State::stalled() const {
  auto const in_piece = [](auto const& one) { return one.second.stalled(); };
  return std::any_of(ranks.begin(), ranks.end(),
                     [](Rank const& one) { return one.told != nullptr && one.told->raised(); }) ||
         std::any_of(pieces.begin(), pieces.end(), in_piece);
}

Expected<void> GemmCollective::State::wait() const {
  if (!group->of_processes() || ranks.empty()) return group->wait();
  // Another product of the group may wait in NCCL, which has no deadline, for a rank that is lost.
  bool const by_library = way == Way::sequential;
  auto waited = std::async(std::launch::async, [&] { return group->wait(); });
  auto const deadline = std::chrono::duration<double>(deadline_s);
  auto until = std::chrono::steady_clock::now() + deadline;
  auto const& mine = ranks[static_cast<std::size_t>(group->here().front())];
  while (waited.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    // What is queued in front of NCCL's call takes as long as it takes.
    if (by_library && mine.before_library && cudaEventQuery(mine.before_library->get()) == cudaErrorNotReady)
      until = std::chrono::steady_clock::now() + deadline;
    bool const late = by_library && std::chrono::steady_clock::now() > until;
    if (!late && !group->lost()) continue;
    if (!by_library) {
      group->end_nccl();
      break;
    }
    Diagnostic why;
    why.code = "E0582";
    why.message = to_string(problem) + ": rank " + std::to_string(group->here().front()) +
                  " waits in NCCL for a rank that does not come";
    why.notes.push_back("ended NCCL, and with it the group, after " + std::to_string(deadline_s) + " s");
    why.suggestion =
        "see whether every rank makes the same calls in the same order; if one is only late, raise "
        "the deadline";
    group->give_up(why);
    group->end_nccl();
    break;
  }
  return waited.get();
}

Diagnostics GemmCollective::State::stalls() {
  Diagnostics found;
  for (int const rank : group->here()) {
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
        stall.tiles = way == Way::fused ? fused_plan(problem.rows, problem.columns).blocks
                                        : parts_of_words(1LL * problem.rows * problem.columns);
        break;
    }
    found.push_back(describe_stall(stall));
  }
  // What has just been read its own kernels for few rows would say as another's.
  broken = true;
  for (int const rank : group->here()) ranks[static_cast<std::size_t>(rank)].told->lower();
  for (auto const& [rows, piece] : pieces)
    if (auto const done = piece.finish(); !done)
      found.insert(found.end(), done.error().begin(), done.error().end());
  return found;
}

Expected<void> GemmCollective::State::begin_anew() {
  if (auto cleared = shared->clear(); !cleared) return cleared;
  arm();
  for (int const rank : group->here()) ranks[static_cast<std::size_t>(rank)].told->lower();
  broken = false;
  return {};
}

Expected<void> GemmCollective::State::recover_with_others(Diagnostics found) {
  // A peer that hangs is named within ten seconds, of which its kernels may have waited two.
  constexpr double k_least_s = 6, k_more_s = 4;
  double const last_s = std::max(k_least_s, deadline_s + k_more_s);
  bool const anew = stalled() || broken;
  auto const told =
      group->exchange("finish of " + to_string(problem), (anew ? "-" : "+") + pack(found), last_s);
  Diagnostics all;
  bool all_well = told.has_value();
  for (std::size_t rank = 0; told && rank < told->size(); ++rank) {
    all_well = all_well && (*told)[rank].starts_with('+');
    auto const said = unpack_diagnostics(std::string_view((*told)[rank]).substr(1));
    all.insert(all.end(), said.begin(), said.end());
  }
  if (all_well) return {};
  if (!told) {
    all = std::move(found);
    all.insert(all.end(), told.error().begin(), told.error().end());
  }
  // All GPUs are idle: nobody writes behind this, and nobody begins before all have done it.
  if (auto done = begin_anew(); !done) {
    if (told) group->give_up(done.error().front());
    all.insert(all.end(), done.error().begin(), done.error().end());
    return tl::make_unexpected(std::move(all));
  }
  if (told)
    if (auto together = group->exchange("new beginning of " + to_string(problem)); !together)
      return tl::make_unexpected(together.error());
  if (all.empty()) return {};
  return tl::make_unexpected(std::move(all));
}

Expected<void> GemmCollective::State::recover() {
  gpu::RelaxedCapture const relaxed;
  if (auto waited = wait(); !waited) {
    if (group->of_processes()) group->give_up(waited.error().front());
    return waited;
  }
  bool const anew = stalled() || broken;
  if (group->of_processes()) return recover_with_others(anew ? stalls() : Diagnostics{});
  if (!anew) return {};
  auto found = stalls();
  if (auto done = begin_anew(); !done) return done;
  if (found.empty()) return {};
  return tl::make_unexpected(std::move(found));
}

Expected<void> GemmCollective::State::go_on() const {
  if (auto why = group->lost()) return refuse(std::move(*why));
  if (!stalled() && !broken) return {};
  return refusal("E0582",
                 to_string(problem) + (stalled() ? ": a launch before has stalled"
                                                 : ": a call before has failed on some ranks only"),
                 "call finish() once for all ranks, and then make the call again on each; a stream that is "
                 "captured: when its capture has ended");
}

Expected<void> GemmCollective::State::nothing_else_stalled(std::vector<cudaStream_t> const& streams) const {
  // A process of its own has the flag of its own rank alone.
  auto const& mine = *ranks[static_cast<std::size_t>(group->here().front())].told;
  if (!mine.another_raised()) return {};
  for (auto* const stream : streams) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    if (status != cudaStreamCaptureStatusNone) return {};  // nothing is read now
  }
  auto const heard = mine.hear_of_another();
  if (heard.name.empty()) return {};
  return refuse(describe_other_stall(heard.name, to_string(problem), heard.how_often(), heard.way_out()));
}

Expected<void> GemmCollective::State::recover_first(std::vector<cudaStream_t> const& streams) {
  if (group->of_processes()) return go_on();
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
  for (int rank = 0; rank < count(); ++rank)
    if (auto done = check(rank, operands[static_cast<std::size_t>(rank)]); !done) return done;
  return {};
}

Expected<void> GemmCollective::State::check(int rank, Operands const& one) const {
  bool const gathers = problem.collective == Collective::all_gather;
  bool const scatters = problem.collective == Collective::reduce_scatter;
  bool const here = group->has(rank);
  // A rank may own no rows. Of another process's only what is stored to counts.
  bool const owns = shard(rank).rows() > 0;
  auto const fits = [](void const* memory, bool needed) {
    return (memory != nullptr || !needed) && reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
  };
  if (!fits(one.a, here && (owns || !gathers)) || !fits(one.b, here) ||
      !fits(one.d, here ? owns || !scatters : by_peers()))
    return refusal("E0581",
                   "an operand of rank " + std::to_string(rank) + " is missing or not 16-byte aligned",
                   here ? "give a, b and d in the memory of its GPU"
                        : "let all ranks take d of one PeerMemory, and give its address of each rank",
                   {to_string(problem)});
  for (auto const& [name, memory, stored] : {std::tuple{"a", one.a, false}, std::tuple{"b", one.b, false},
                                             std::tuple{"d", static_cast<void const*>(one.d), by_peers()}})
    if (memory != nullptr && (here || stored))
      if (auto done = check_memory(*group, rank, name, memory, stored, to_string(problem)); !done)
        return done;
  return {};
}

Expected<void> GemmCollective::State::check(int rank, cudaStream_t stream) const {
  gpu::RelaxedCapture const relaxed;
  Select const current(group->device(rank));
  // CUDA says no device of a stream that is captured.
  auto status = cudaStreamCaptureStatusNone;
  ok(cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusNone) return {};
  int device = -1;
  ok(cudaStreamGetDevice(stream, &device));
  if (device == group->device(rank)) return {};
  return refusal("E0581",
                 "the stream of rank " + std::to_string(rank) + " is of GPU " + std::to_string(device) +
                     ", not of GPU " + std::to_string(group->device(rank)),
                 "give a stream that was made while the rank's GPU was current", {to_string(problem)});
}

}  // namespace tessera::gemm_collectives
