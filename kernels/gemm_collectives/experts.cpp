// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <tessera/communicate/reach.hpp>
#include <tessera/communicate/row_exchange.hpp>
#include <tessera/communicate/transfers.hpp>
#include <tuple>

#include "operand_memory.hpp"
#include "piece.hpp"
#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/nccl.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/relaxed_capture.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"
#include "src/gpu/told_flag.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;
using kernels::refusal;

namespace {

std::size_t up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
char* at(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + bytes; }

}  // namespace

struct ExpertsProduct::State {
  std::shared_ptr<PeerGroup> group;
  ExpertsProblem problem;
  double deadline_s = 2;
  gpu::Nccl const* nccl = nullptr;  ///< the way, if there is one
  std::optional<Piece> piece;       ///< of one expert
  /// [control][counts that came][slots]: what peers write to.
  std::optional<PeerMemory> shared;
  /// [record][largest count][workspace][what is sent, by NCCL: counts, slots].
  std::optional<PeerMemory> own;
  std::size_t come_at = 0, slots_at = 0, most_at = 0, workspace_at = 0, counts_at = 0, send_at = 0;
  std::deque<gpu::ToldFlag> told;
  bool broken = false;  ///< a call was enqueued on some ranks only

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (group) (void)group->wait();
  }

  std::size_t row_bytes() const { return 2 * static_cast<std::size_t>(problem.depth); }
  std::size_t slot_bytes() const { return row_bytes() * static_cast<std::size_t>(problem.capacity); }
  /// Local experts x ranks.
  std::size_t come_count() const { return static_cast<std::size_t>(problem.experts); }
  std::size_t all_slots() const { return come_count() * slot_bytes(); }
  StallRecord* record(int rank) const { return static_cast<StallRecord*>(own->at(rank)); }
  int* most(int rank) const { return reinterpret_cast<int*>(at(own->at(rank), most_at)); }
  int* come(int rank) const { return reinterpret_cast<int*>(at(shared->at(rank), come_at)); }

  PeerOperation operation(int rank) const {
    PeerOperation result;
    for (int peer = 0; peer < problem.ranks; ++peer)
      result.control[peer] = static_cast<PeerControl*>(shared->at(peer));
    result.rank = rank;
    result.ranks = problem.ranks;
    result.watch = {record(rank), static_cast<unsigned long long>(deadline_s * 1e9)};
    return result;
  }

  void make();
  void arm();
  void warm_up() const;
  bool stalled() const {
    return std::any_of(told.begin(), told.end(), [](auto const& one) { return one.raised(); });
  }
  Expected<void> nothing_else_stalled(std::vector<cudaStream_t> const& streams) const;
  Expected<void> check(std::vector<ExpertsOperands> const& operands,
                       std::vector<cudaStream_t> const& streams) const;
  RowExchange exchange(int rank, ExpertsOperands const& mine) const;
  void exchange_by_library(std::vector<cudaStream_t> const& streams) const;
  void products(int rank, ExpertsOperands const& mine, cudaStream_t stream) const;
  void enqueue(std::vector<ExpertsOperands> const& operands, std::vector<cudaStream_t> const& streams) const;
  Diagnostics stalls() const;
  Diagnostics cut_off() const;
};

std::string to_string(ExpertsProblem const& problem) {
  return "all_to_all_gemm of " + std::to_string(problem.experts) + " experts, " +
         std::to_string(problem.capacity) + " x " + std::to_string(problem.columns) + " x " +
         std::to_string(problem.depth) + ", on " + std::to_string(problem.ranks) + " GPUs";
}

Expected<void> check_problem(ExpertsProblem const& problem) {
  constexpr int k_most = 1 << 20, k_most_experts = 4096;
  auto const refused = [&](std::string const& message, std::string const& hint) {
    return refusal("E0581", message, hint, {to_string(problem)});
  };
  for (auto const& [name, size, most] : {std::tuple{"experts", problem.experts, k_most_experts},
                                         {"capacity", problem.capacity, k_most / std::max(problem.ranks, 1)},
                                         {"columns", problem.columns, k_most},
                                         {"depth", problem.depth, k_most}})
    if (size < 1 || size > most)
      return refused(std::string(name) + ": " + std::to_string(size), "ask for 1 to " + std::to_string(most));
  if (problem.experts % problem.ranks != 0)
    return refused(std::to_string(problem.experts) + " experts on " + std::to_string(problem.ranks) + " GPUs",
                   "give each GPU as many experts");
  for (auto const& [name, size] : {std::pair{"columns", problem.columns}, {"depth", problem.depth}})
    if (size % 8 != 0)
      return refused(std::string(name) + " " + std::to_string(size) + " are not 16-byte aligned",
                     "pad to a multiple of 8");
  return {};
}

void ExpertsProduct::State::make() {
  gpu::RelaxedCapture const relaxed;
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    ok(static_cast<cudaError_t>(load_transfers()));
    ok(static_cast<cudaError_t>(load_row_exchange()));
    piece.emplace(must(
        Piece::make({problem.slot_rows(), problem.columns, problem.depth, problem.type}, PieceKernel{})));
    ok(told.emplace_back().make(to_string(problem)));
  }
  come_at = up(sizeof(PeerControl));
  slots_at = come_at + up(sizeof(int) * come_count());
  shared.emplace(must(PeerMemory::make(group, slots_at + all_slots(),
                                       group->apart().empty() ? Reached::by_all : Reached::by_its_rank)));
  most_at = up(sizeof(StallRecord));
  workspace_at = most_at + up(sizeof(int));
  counts_at = workspace_at + up(piece->workspace_bytes());
  send_at = counts_at + up(sizeof(int) * come_count());
  own.emplace(
      must(PeerMemory::make(group, nccl != nullptr ? send_at + all_slots() : send_at, Reached::by_its_rank)));
  arm();
  warm_up();
}

void ExpertsProduct::State::arm() {
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    gpu::Stream const stream;
    auto& flag = told[static_cast<std::size_t>(rank)];
    flag.lower();
    StallRecord empty;
    empty.told = flag.address();
    ok(cudaMemcpyAsync(record(rank), &empty, sizeof empty, cudaMemcpyHostToDevice, stream.get()));
    ok(cudaStreamSynchronize(stream.get()));
  }
}

/// The product's kernel is loaded by its first launch, which is not behind one that waits for a peer.
void ExpertsProduct::State::warm_up() const {
  auto const weights = must(
      PeerMemory::make(group, static_cast<std::size_t>(problem.columns) * row_bytes(), Reached::by_its_rank));
  auto const results = must(PeerMemory::make(
      group, 2 * static_cast<std::size_t>(problem.slot_rows()) * static_cast<std::size_t>(problem.columns),
      Reached::by_its_rank));
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    gpu::Stream const stream;
    must(piece->run({at(shared->at(rank), slots_at), weights.at(rank), results.at(rank)},
                    at(own->at(rank), workspace_at), false, false, stream.get()));
    ok(cudaStreamSynchronize(stream.get()));
  }
}

Expected<ExpertsProduct> ExpertsProduct::make(std::shared_ptr<PeerGroup> group, ExpertsProblem problem,
                                              bool in_sequence, double deadline_seconds) {
  problem.ranks = group->size();
  if (auto fine = check_problem(problem); !fine) return tl::make_unexpected(fine.error());
  if (group->of_processes())
    return refusal("E0581", "experts of several processes", "let one process have all GPUs",
                   {to_string(problem)});
  auto state = std::make_shared<State>();
  state->problem = problem;
  state->deadline_s = deadline_seconds;
  try {
    if (in_sequence || !group->apart().empty()) {
      std::string why;
      state->nccl = group->nccl(why);
      if (state->nccl == nullptr)
        return refusal("E0583", "NCCL is not there: " + why,
                       "let the linker find libnccl.so.2 (LD_LIBRARY_PATH)", {to_string(problem)});
    }
    state->group = std::move(group);
    state->make();
  } catch (std::exception const& error) {
    return failed(error);
  }
  return ExpertsProduct(std::move(state));
}

Expected<void> ExpertsProduct::State::check(std::vector<ExpertsOperands> const& operands,
                                            std::vector<cudaStream_t> const& streams) const {
  gpu::RelaxedCapture const relaxed;
  auto const ranks = static_cast<std::size_t>(problem.ranks);
  if (operands.size() != ranks || streams.size() != ranks)
    return refusal("E0581",
                   "operands of " + std::to_string(operands.size()) + " ranks and " +
                       std::to_string(streams.size()) + " streams for " + std::to_string(ranks) + " GPUs",
                   "give operands and a stream for each rank", {to_string(problem)});
  for (int rank = 0; rank < problem.ranks; ++rank) {
    auto const& one = operands[static_cast<std::size_t>(rank)];
    for (auto const& [name, memory, alignment] : {std::tuple{"rows", one.rows, 16},
                                                  {"counts", static_cast<void const*>(one.counts), 4},
                                                  {"b", one.b, 16},
                                                  {"d", static_cast<void const*>(one.d), 16},
                                                  {"come", static_cast<void const*>(one.come), 4}}) {
      if (memory == nullptr ||
          reinterpret_cast<std::uintptr_t>(memory) % static_cast<unsigned>(alignment) != 0)
        return refusal("E0581",
                       std::string(name) + " of rank " + std::to_string(rank) + " is missing or not " +
                           std::to_string(alignment) + "-byte aligned",
                       "give rows, counts, b, d and come in the memory of its GPU", {to_string(problem)});
      if (auto fine = check_memory(*group, rank, name, memory, false, to_string(problem)); !fine) return fine;
    }
  }
  return {};
}

/// E0520, once; not in a capture, in which nothing is read.
Expected<void> ExpertsProduct::State::nothing_else_stalled(std::vector<cudaStream_t> const& streams) const {
  if (!told.front().another_raised()) return {};
  for (auto* const stream : streams) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    if (status != cudaStreamCaptureStatusNone) return {};
  }
  auto const heard = told.front().hear_of_another();
  if (heard.name.empty()) return {};
  return refuse(describe_other_stall(heard.name, to_string(problem), heard.how_often(), heard.way_out()));
}

RowExchange ExpertsProduct::State::exchange(int rank, ExpertsOperands const& mine) const {
  RowExchange result;
  result.rows = mine.rows;
  result.counts = mine.counts;
  result.most = most(rank);
  result.ranks = problem.ranks;
  result.boxes = problem.local_experts();
  result.capacity = problem.capacity;
  result.row_bytes = static_cast<int>(row_bytes());
  result.sources = nccl != nullptr ? 1 : problem.ranks;
  result.source = nccl != nullptr ? 0 : rank;
  for (int peer = 0; peer < problem.ranks; ++peer) {
    // NCCL sends it from here, a peer's boxes side by side.
    auto const first = static_cast<std::size_t>(peer) * static_cast<std::size_t>(result.boxes);
    result.slots[peer] =
        nccl != nullptr ? at(own->at(rank), send_at + first * slot_bytes()) : at(shared->at(peer), slots_at);
    result.come[peer] =
        nccl != nullptr ? reinterpret_cast<int*>(at(own->at(rank), counts_at)) + first : come(peer);
  }
  return result;
}

void ExpertsProduct::State::exchange_by_library(std::vector<cudaStream_t> const& streams) const {
  auto const kind = problem.type == ElementType::bf16 ? gpu::Nccl::Type::bf16 : gpu::Nccl::Type::fp16;
  auto const local = static_cast<std::size_t>(problem.local_experts());
  auto const ranks = static_cast<std::size_t>(problem.ranks);
  gpu::Nccl::Group calls(*nccl);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    Select const current(group->device(rank));
    auto* const stream = streams[static_cast<std::size_t>(rank)];
    for (int peer = 0; peer < problem.ranks; ++peer)
      for (std::size_t box = 0; box < local; ++box) {
        auto const sent = static_cast<std::size_t>(peer) * local + box;
        auto const slot = box * ranks + static_cast<std::size_t>(peer);
        nccl->send(rank, at(own->at(rank), send_at + sent * slot_bytes()), slot_bytes() / 2, kind, peer,
                   stream);
        nccl->send(rank, at(own->at(rank), counts_at + sent * sizeof(int)), 1, gpu::Nccl::Type::int32, peer,
                   stream);
        nccl->receive(rank, at(shared->at(rank), slots_at + slot * slot_bytes()), slot_bytes() / 2, kind,
                      peer, stream);
        nccl->receive(rank, come(rank) + slot, 1, gpu::Nccl::Type::int32, peer, stream);
      }
  }
  calls.end();
}

void ExpertsProduct::State::products(int rank, ExpertsOperands const& mine, cudaStream_t stream) const {
  ok(cudaMemcpyAsync(mine.come, come(rank), sizeof(int) * come_count(), cudaMemcpyDeviceToDevice, stream));
  auto const local = static_cast<std::size_t>(problem.local_experts());
  auto const rows = static_cast<std::size_t>(problem.slot_rows());
  auto const columns = static_cast<std::size_t>(problem.columns);
  for (std::size_t expert = 0; expert < local; ++expert)
    must(piece->run({at(shared->at(rank), slots_at + expert * rows * row_bytes()),
                     static_cast<char const*>(mine.b) + expert * columns * row_bytes(),
                     at(mine.d, 2 * expert * rows * columns)},
                    at(own->at(rank), workspace_at), false, false, stream));
}

void ExpertsProduct::State::enqueue(std::vector<ExpertsOperands> const& operands,
                                    std::vector<cudaStream_t> const& streams) const {
  auto const each = [&](auto const& act) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      Select const current(group->device(rank));
      act(rank, operands[static_cast<std::size_t>(rank)], streams[static_cast<std::size_t>(rank)]);
    }
  };
  each([&](int rank, ExpertsOperands const& mine, cudaStream_t stream) {
    // A peer that has begun has read what it was sent the launch before.
    if (nccl == nullptr) ok(static_cast<cudaError_t>(begin_together(operation(rank), stream)));
    ok(static_cast<cudaError_t>(send_rows(exchange(rank, mine), stream)));
    // What is before it in the stream is in the peers' memory; and theirs is here.
    if (nccl == nullptr) ok(static_cast<cudaError_t>(meet_done(operation(rank), stream)));
  });
  if (nccl != nullptr) exchange_by_library(streams);
  each([&](int rank, ExpertsOperands const& mine, cudaStream_t stream) { products(rank, mine, stream); });
}

Expected<void> ExpertsProduct::run(std::vector<ExpertsOperands> const& operands,
                                   std::vector<cudaStream_t> const& streams) {
  auto& state = *state_;
  try {
    if (auto fine = state.check(operands, streams); !fine) return fine;
    if (state.stalled() || state.broken)
      return refusal("E0582",
                     to_string(state.problem) + (state.stalled() ? ": a launch before has stalled"
                                                                 : ": a call before has failed halfway"),
                     "call finish(), and then make the call again");
    if (auto fine = state.nothing_else_stalled(streams); !fine) return fine;
    std::deque<gpu::PeerOrder::Turn> turns;
    for (int rank = 0; rank < state.problem.ranks; ++rank) {
      turns.emplace_back(state.group->order(), rank, streams[static_cast<std::size_t>(rank)]);
      auto captured = cudaStreamCaptureStatusNone;
      ok(cudaStreamIsCapturing(streams[static_cast<std::size_t>(rank)], &captured));
      state.told[static_cast<std::size_t>(rank)].launched(captured != cudaStreamCaptureStatusNone);
    }
    state.broken = true;
    state.enqueue(operands, streams);
    state.broken = false;
    return {};
  } catch (std::exception const& error) {
    // A kernel that was not launched is no error of the next one.
    (void)cudaGetLastError();
    return failed(error);
  }
}

Diagnostics ExpertsProduct::State::stalls() const {
  Diagnostics found;
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    StallRecord seen;
    ok(cudaMemcpy(&seen, record(rank), sizeof seen, cudaMemcpyDeviceToHost));
    if (seen.state != 2) continue;
    PeerStall stall;
    stall.operation = to_string(problem);
    stall.rank = rank;
    stall.peer = static_cast<int>(seen.semaphore);
    stall.seen = seen.seen;
    stall.expected = seen.expected;
    stall.waited_s = static_cast<double>(seen.waited_ns) * 1e-9;
    stall.awaited = static_cast<PeerWord>(seen.stage) == PeerWord::begun ? "that it begins" : "its rows";
    found.push_back(describe_stall(stall));
  }
  return found;
}

Diagnostics ExpertsProduct::State::cut_off() const {
  Diagnostics found;
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    int largest = 0;
    ok(cudaMemcpy(&largest, most(rank), sizeof largest, cudaMemcpyDeviceToHost));
    ok(cudaMemset(most(rank), 0, sizeof largest));
    if (largest <= problem.capacity) continue;
    auto const said = refusal("E0581",
                              "rank " + std::to_string(rank) + " has sent " + std::to_string(largest) +
                                  " rows to an expert, and a slot has " + std::to_string(problem.capacity),
                              "what was more is lost: make it with a larger capacity", {to_string(problem)});
    found.insert(found.end(), said.value().begin(), said.value().end());
  }
  return found;
}

Expected<void> ExpertsProduct::finish() {
  auto& state = *state_;
  gpu::RelaxedCapture const relaxed;
  try {
    if (auto waited = state.group->wait(); !waited) return waited;
    auto found = state.cut_off();
    if (state.stalled() || state.broken) {
      auto const more = state.stalls();
      found.insert(found.begin(), more.begin(), more.end());
      if (auto cleared = state.shared->clear(); !cleared) return cleared;
      state.arm();
      state.broken = false;
    }
    if (found.empty()) return {};
    return tl::make_unexpected(std::move(found));
  } catch (std::exception const& error) {
    return failed(error);
  }
}

std::string ExpertsProduct::name() const {
  return std::string(state_->nccl != nullptr ? "sequential, " : "store, ") + state_->piece->name();
}

}  // namespace tessera::gemm_collectives
