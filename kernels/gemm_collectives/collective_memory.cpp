// SPDX-License-Identifier: Apache-2.0
// Products, memory and streams of each rank, and kernels that are loaded before anybody waits.
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "collective_state.hpp"

namespace tessera::gemm_collectives {

namespace {

std::size_t up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Expected<void> GemmCollective::State::make_pieces(std::map<int, Piece>& to, std::vector<int> const& rows,
                                                  PieceKernel const& kernel) const {
  for (int const some : rows) {
    if (some == 0) continue;
    auto made =
        Piece::make({some, problem.local_columns(), problem.local_depth(), problem.type, problem.gelu},
                    kernel, deadline_s);
    if (!made) return tl::make_unexpected(made.error());
    to.insert_or_assign(some, std::move(*made));
  }
  return {};
}

Expected<void> GemmCollective::State::make_pieces(PieceKernel const& kernel) {
  if (way == Way::fused) return {};
  std::vector<int> rows, with_sum;
  bool const whole = way == Way::words || way == Way::sequential;
  if (whole) rows = {problem.rows};
  for (int rank = 0; rank < count() && !whole; ++rank) {
    if (way != Way::add) rows.push_back(shard(rank).rows());
    for (int n = 0; way == Way::add && n < parts; ++n)
      with_sum.push_back(part_of(problem, rank, parts, n).rows());
  }
  if (way == Way::add) rows = with_sum;
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    if (auto done = make_pieces(pieces, rows, kernel); !done) return done;
    // Only cuBLASLt's products add.
    auto const by_library = kernel.tiles != nullptr || kernel.few >= 0 ? PieceKernel{} : kernel;
    if (auto done = make_pieces(adding, with_sum, by_library); !done) return done;
  }
  return {};
}

Expected<void> GemmCollective::State::make_shared_memory() {
  shared_at = up(sizeof(PeerControl));
  std::size_t shared_bytes = shared_at;
  long long const elements = 1LL * problem.rows * problem.local_columns();
  auto const slots = static_cast<std::size_t>(count()) * slot_bytes();
  if (way == Way::words)
    shared_bytes += packet_bytes(elements, count());
  else if (way == Way::fused)
    shared_bytes += fused_packet_bytes(problem.rows, problem.columns, count());
  else
    shared_bytes += slots;
  auto made = PeerMemory::make(group, shared_bytes);
  if (!made) return tl::make_unexpected(made.error());
  shared.emplace(std::move(*made));
  return {};
}

Expected<void> GemmCollective::State::make_own_memory() {
  auto const slots = static_cast<std::size_t>(count()) * slot_bytes();
  workspace_at = up(sizeof(StallRecord));
  std::size_t workspace = 0;
  for (auto const* all : {&pieces, &adding})
    for (auto const& [rows, piece] : *all) workspace = std::max(workspace, piece.workspace_bytes());
  partial_at = workspace_at + up(workspace);
  std::size_t partial = 0;
  if (way == Way::words) partial = output_bytes(problem.rows);
  if (way == Way::sequential) partial = slots;
  send_at = partial_at + up(partial);
  bool const sends = way == Way::add || (way == Way::copy && problem.collective != Collective::all_gather) ||
                     (way == Way::sequential && problem.rows % count() != 0);
  auto made = PeerMemory::make(group, send_at + (sends ? slots : 0), Reached::by_its_rank);
  if (!made) return tl::make_unexpected(made.error());
  own.emplace(std::move(*made));
  return {};
}

void GemmCollective::State::make_ranks() {
  ranks.resize(static_cast<std::size_t>(count()));
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    ok(static_cast<cudaError_t>(load_transfers()));
    if (way == Way::fused) ok(static_cast<cudaError_t>(load_fused()));
    auto& one = ranks[static_cast<std::size_t>(rank)];
    // What is short and what peers wait for goes first.
    int least = 0, greatest = 0;
    ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    one.side = std::make_unique<gpu::Stream>(greatest);
    one.fork = std::make_unique<gpu::Edge>();
    one.join = std::make_unique<gpu::Edge>();
    one.before_library = std::make_unique<gpu::Edge>();
    if (way != Way::sequential) one.steps = steps_of(problem, way, parts, rank);
    one.told = std::make_unique<gpu::ToldFlag>();
    ok(one.told->make(to_string(problem)));
  }
  arm();
}

void GemmCollective::State::arm() const {
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    StallRecord empty;
    empty.told = ranks[static_cast<std::size_t>(rank)].told->address();
    auto const stream = ranks[static_cast<std::size_t>(rank)].side->get();
    ok(cudaMemcpyAsync(record(rank), &empty, sizeof empty, cudaMemcpyHostToDevice, stream));
    ok(cudaStreamSynchronize(stream));
  }
}

Expected<void> GemmCollective::State::warm_up() {
  static std::mutex mutex;
  static auto& known = *new std::set<std::tuple<int, ElementType, std::string, int>>;
  std::lock_guard const lock(mutex);
  std::optional<PeerMemory> some;
  for (auto const* all : {&pieces, &adding})
    for (auto const& [rows, piece] : *all)
      for (int const rank : group->here()) {
        if (!piece.is_loaded_late()) break;
        auto const name =
            piece.name() + (all == &adding ? " and a sum" : "") + (problem.gelu ? ", gelu" : "");
        auto const key = std::tuple(group->device(rank), problem.type, name, piece.by_library() ? 0 : rows);
        if (known.contains(key)) continue;
        std::size_t const bytes = up(std::max(
            {input_bytes(problem.rows), output_bytes(problem.rows), input_bytes(problem.local_columns())}));
        if (!some) {
          auto made = PeerMemory::make(group, 2 * bytes, Reached::by_its_rank);
          if (!made) return tl::make_unexpected(made.error());
          some.emplace(std::move(*made));
        }
        Select const current(group->device(rank));
        auto const stream = ranks[static_cast<std::size_t>(rank)].side->get();
        void* const zeros = some->at(rank);
        PieceOperands const operands{zeros, zeros, at(zeros, bytes), all == &adding ? zeros : nullptr};
        must(piece.run(operands, at(own->at(rank), workspace_at), false, false, stream));
        ok(cudaStreamSynchronize(stream));
        known.insert(key);
      }
  return {};
}

}  // namespace tessera::gemm_collectives
