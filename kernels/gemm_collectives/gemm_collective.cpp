// SPDX-License-Identifier: Apache-2.0
#include "gemm_collective.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tessera/communicate/reach.hpp>
#include <tessera/communicate/transfers.hpp>
#include <tuple>

#include "operand_memory.hpp"
#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/event_timer.hpp"
#include "src/gpu/nccl.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/relaxed_capture.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"
#include "src/gpu/told_flag.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;
using gpu::Select;
using kernels::refusal;

constexpr std::size_t k_element = 2;  // bytes

std::size_t up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

void* at(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + bytes; }
void const* at(void const* memory, std::size_t bytes) { return static_cast<char const*>(memory) + bytes; }

}  // namespace

struct GemmCollective::State {
  std::shared_ptr<PeerGroup> group;
  Problem problem;
  Way way = Way::sequential;
  double deadline_s = 2;
  gpu::Nccl const* nccl = nullptr;
  std::map<int, Piece> pieces;  ///< by rows
  std::map<int, Piece> adding;  ///< those that add what a peer has sent
  int parts = 1;                ///< products of the own rows, where they add
  /// [control][packets, or slots]: what peers write to.
  std::optional<PeerMemory> shared;
  /// [record][workspace][partial sums, or what is sent].
  std::optional<PeerMemory> own;
  std::size_t shared_at = 0, workspace_at = 0, partial_at = 0, send_at = 0;

  struct Rank {
    std::unique_ptr<gpu::Stream> side;
    std::unique_ptr<gpu::Edge> fork, join;
    std::unique_ptr<gpu::ToldFlag> told;
  };
  std::vector<Rank> ranks;
  /// A call has failed when a part of it was enqueued: ranks may have counted differently.
  std::atomic<bool> broken{false};

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  /// Kernels in flight may still raise a flag, and write.
  ~State() {
    if (group) (void)group->wait();
  }

  int count() const { return problem.ranks; }
  RowRange shard(int rank) const { return shard_of(problem.rows, problem.ranks, rank); }
  std::size_t slot_bytes() const { return k_element * static_cast<std::size_t>(slot_elements(problem)); }
  HalfType type() const { return problem.type == ElementType::bf16 ? HalfType::bf16 : HalfType::fp16; }
  std::size_t output_bytes(int rows) const {
    return k_element * static_cast<std::size_t>(rows) * static_cast<std::size_t>(problem.local_columns());
  }
  std::size_t input_bytes(int rows) const {
    return k_element * static_cast<std::size_t>(rows) * static_cast<std::size_t>(problem.local_depth());
  }
  /// The slot of what `source` sends, in a rank's memory.
  void* slot(int rank, int source) const {
    return at(shared->at(rank), shared_at + static_cast<std::size_t>(source) * slot_bytes());
  }
  void* partial(int rank) const { return at(own->at(rank), partial_at); }
  /// What is sent to a peer lies here first.
  void* sent(int rank, int peer) const {
    return at(own->at(rank), send_at + static_cast<std::size_t>(peer) * slot_bytes());
  }
  StallRecord* record(int rank) const { return static_cast<StallRecord*>(own->at(rank)); }

  PeerOperation operation(int rank) const {
    PeerOperation result;
    for (int peer = 0; peer < count(); ++peer)
      result.control[peer] = static_cast<PeerControl*>(shared->at(peer));
    result.rank = rank;
    result.ranks = count();
    result.watch = {record(rank), static_cast<unsigned long long>(deadline_s * 1e9)};
    return result;
  }

  // ------------------------------------------------------------------------------------------- making

  /// The n-th of the products that a rank's own rows are cut into: whole tiles, but for the last one.
  RowRange part_of(int rank, int n) const {
    constexpr int k_tile = 128;
    auto const rows = shard(rank);
    auto const tiles = shard_of((rows.rows() + k_tile - 1) / k_tile, parts, n);
    auto const upto = [&](int tile) { return std::min(rows.begin + tile * k_tile, rows.end); };
    return {upto(tiles.begin), upto(tiles.end)};
  }

  static Expected<void> make_pieces(std::map<int, Piece>& to, std::vector<int> const& rows,
                                    Problem const& problem, PieceKernel const& kernel) {
    for (int const some : rows) {
      if (some == 0) continue;
      auto made = Piece::make({some, problem.local_columns(), problem.local_depth(), problem.type}, kernel);
      if (!made) return tl::make_unexpected(made.error());
      to.insert_or_assign(some, std::move(*made));
    }
    return {};
  }
  Expected<void> make_pieces(PieceKernel const& kernel) {
    std::vector<int> rows, with_sum;
    bool const whole = way == Way::words || way == Way::sequential;
    if (whole) rows = {problem.rows};
    for (int rank = 0; rank < count() && !whole; ++rank) {
      if (way != Way::add) rows.push_back(shard(rank).rows());
      for (int n = 0; way == Way::add && n < parts; ++n) with_sum.push_back(part_of(rank, n).rows());
    }
    if (way == Way::add) rows = with_sum;
    for (int rank = 0; rank < count(); ++rank) {
      Select const current(group->device(rank));
      if (auto done = make_pieces(pieces, rows, problem, kernel); !done) return done;
      // Only cuBLASLt's products add.
      auto const by_library = kernel.tiles != nullptr || kernel.few >= 0 ? PieceKernel{} : kernel;
      if (auto done = make_pieces(adding, with_sum, problem, by_library); !done) return done;
    }
    return {};
  }

  Expected<void> make_memory() {
    shared_at = up(sizeof(PeerControl));
    std::size_t shared_bytes = shared_at;
    long long const elements = 1LL * problem.rows * problem.local_columns();
    auto const slots = static_cast<std::size_t>(count()) * slot_bytes();
    if (way == Way::words)
      shared_bytes += packet_bytes(elements, count());
    else
      shared_bytes += slots;
    workspace_at = up(sizeof(StallRecord));
    std::size_t workspace = 0;
    for (auto const* all : {&pieces, &adding})
      for (auto const& [rows, piece] : *all) workspace = std::max(workspace, piece.workspace_bytes());
    partial_at = workspace_at + up(workspace);
    std::size_t partial = 0;
    if (way == Way::words) partial = output_bytes(problem.rows);
    if (way == Way::sequential) partial = slots;
    send_at = partial_at + up(partial);
    bool const sends = way == Way::add ||
                       (way == Way::copy && problem.collective != Collective::all_gather) ||
                       (way == Way::sequential && problem.rows % count() != 0);
    auto made = PeerMemory::make(group, shared_bytes);
    if (!made) return tl::make_unexpected(made.error());
    shared.emplace(std::move(*made));
    auto own_made = PeerMemory::make(group, send_at + (sends ? slots : 0));
    if (!own_made) return tl::make_unexpected(own_made.error());
    own.emplace(std::move(*own_made));
    return {};
  }

  void make_ranks() {
    for (int rank = 0; rank < count(); ++rank) {
      Select const current(group->device(rank));
      ok(static_cast<cudaError_t>(load_transfers()));
      Rank one;
      // What is short and what peers wait for goes first.
      int least = 0, greatest = 0;
      ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
      one.side = std::make_unique<gpu::Stream>(greatest);
      one.fork = std::make_unique<gpu::Edge>();
      one.join = std::make_unique<gpu::Edge>();
      one.told = std::make_unique<gpu::ToldFlag>();
      ok(one.told->make(to_string(problem)));
      ranks.push_back(std::move(one));
    }
    arm();
  }

  /// The records, empty, with the words that they raise.
  void arm() const {
    for (int rank = 0; rank < count(); ++rank) {
      Select const current(group->device(rank));
      StallRecord empty;
      empty.told = ranks[static_cast<std::size_t>(rank)].told->address();
      auto const stream = ranks[static_cast<std::size_t>(rank)].side->get();
      ok(cudaMemcpyAsync(record(rank), &empty, sizeof empty, cudaMemcpyHostToDevice, stream));
      ok(cudaStreamSynchronize(stream));
    }
  }

  /// Runs products once, of zeros, whose kernels are loaded by their first launch: a kernel that is first
  /// loaded behind one that spins would never start. Each kernel on each device once for the process.
  Expected<void> warm_up() {
    static std::mutex mutex;
    static auto& known = *new std::set<std::tuple<int, ElementType, std::string, int>>;
    std::lock_guard const lock(mutex);
    std::optional<PeerMemory> some;
    for (auto const* all : {&pieces, &adding})
      for (auto const& [rows, piece] : *all)
        for (int rank = 0; rank < count() && piece.is_loaded_late(); ++rank) {
          auto const name = piece.name() + (all == &adding ? " and a sum" : "");
          auto const key = std::tuple(group->device(rank), problem.type, name, piece.by_library() ? 0 : rows);
          if (known.contains(key)) continue;
          std::size_t const bytes = up(std::max(
              {input_bytes(problem.rows), output_bytes(problem.rows), input_bytes(problem.local_columns())}));
          if (!some) {
            auto made = PeerMemory::make(group, 2 * bytes);
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

  // ------------------------------------------------------------------------------------------- stalls

  bool stalled() const {
    return std::any_of(ranks.begin(), ranks.end(), [](Rank const& one) { return one.told->raised(); });
  }

  /// Waits for all ranks, says what happened, and begins anew.
  Expected<void> recover() {
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

  /// E0582 where a launch has stalled and nobody has heard of it, or a call has failed halfway.
  Expected<void> go_on() const {
    if (!stalled() && !broken) return {};
    return refusal("E0582",
                   to_string(problem) + (stalled() ? ": a launch before has stalled"
                                                   : ": a call before has failed on some ranks only"),
                   "call finish() once for all ranks, and then make the call again on each; a stream that is "
                   "captured: when its capture has ended");
  }
  Expected<void> recover_first(std::vector<cudaStream_t> const& streams) {
    if (!stalled() && !broken) return {};
    for (auto* const stream : streams) {
      auto status = cudaStreamCaptureStatusNone;
      ok(cudaStreamIsCapturing(stream, &status));
      if (status != cudaStreamCaptureStatusNone) return go_on();
    }
    return recover();
  }

  /// E0581 for memory that is missing, not 16-byte aligned, or not where it should be.
  Expected<void> check(std::vector<Operands> const& operands) const {
    gpu::RelaxedCapture const relaxed;
    if (operands.size() != static_cast<std::size_t>(count()))
      return refusal("E0581",
                     "operands of " + std::to_string(operands.size()) + " ranks for " +
                         std::to_string(count()) + " GPUs",
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

  // ---------------------------------------------------------------------------------------- launching

  void product(int rank, int rows, void const* a, void const* b, void* d, bool lets_next, bool early,
               cudaStream_t stream) {
    auto const& piece = pieces.at(rows);
    must(piece.run({a, b, d}, at(own->at(rank), workspace_at), lets_next && piece.chains(),
                   early && piece.chains(), stream));
  }

  void adding_product(int rank, int rows, PieceOperands const& operands, cudaStream_t stream) {
    must(adding.at(rows).run(operands, at(own->at(rank), workspace_at), false, false, stream));
  }

  void by_words(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    product(rank, problem.rows, mine.a, mine.b, partial(rank), false, false, stream);
    WordsSum sum;
    sum.partial = partial(rank);
    sum.sum = mine.d;
    sum.elements = 1LL * problem.rows * problem.columns;
    for (int peer = 0; peer < count(); ++peer) sum.packets[peer] = at(shared->at(peer), shared_at);
    sum.type = type();
    ok(static_cast<cudaError_t>(all_reduce_words(operation(rank), sum, true, stream)));
  }

  void sum_of_shard(int rank, std::vector<Operands> const& operands, cudaStream_t stream) const {
    ShardSum sum;
    sum.slots = slot(rank, 0);
    sum.slot_elements = slot_elements(problem);
    auto const rows = shard(rank);
    sum.elements = 1LL * rows.rows() * problem.columns;
    sum.type = type();
    if (problem.collective == Collective::all_reduce) {
      // The peers' copies first: the link takes longer.
      sum.copies = count();
      for (int step = 0; step < count(); ++step)
        sum.results[step] = at(operands[static_cast<std::size_t>(send_order(count(), rank, step))].d,
                               output_bytes(rows.begin));
    } else {
      sum.results[0] = operands[static_cast<std::size_t>(rank)].d;
    }
    ok(static_cast<cudaError_t>(::tessera::sum_shard(operation(rank), sum, stream)));
  }

  /// Rows of the peers first; what is theirs goes straight into their memory, or by a copy engine beside the
  /// next product.
  void by_shards(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    auto const& one = ranks[static_cast<std::size_t>(rank)];
    bool first = true, copied = false;
    for (int step = 0; step < count(); ++step) {
      int const owner = send_order(count(), rank, step);
      auto const rows = shard(owner);
      if (rows.rows() == 0) continue;
      bool const copies = way == Way::copy && owner != rank;
      void* const to = copies ? sent(rank, owner) : slot(owner, rank);
      product(rank, rows.rows(), at(mine.a, input_bytes(rows.begin)), mine.b, to, owner != rank, !first,
              stream);
      first = false;
      if (!copies) continue;
      copied = true;
      one.fork->put(stream, one.side->get());
      ok(cudaMemcpyAsync(slot(owner, rank), to, output_bytes(rows.rows()), cudaMemcpyDefault,
                         one.side->get()));
    }
    if (copied) one.join->put(one.side->get(), stream);
    sum_of_shard(rank, operands, stream);
  }

  /// The peer's rows first, in parts that a copy engine sends beside the next product; then the own ones,
  /// whose products add what has come.
  void by_adding(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    auto const& one = ranks[static_cast<std::size_t>(rank)];
    auto const side = one.side->get();
    auto const words = operation(rank);
    int const peer = send_order(count(), rank, 0);
    one.fork->put(stream, side);
    // A peer that has begun has read what it was sent the launch before.
    ok(static_cast<cudaError_t>(begin_together(words, side)));
    for (int n = 0; n < parts; ++n) {
      auto const part = part_of(peer, n);
      if (part.rows() == 0) continue;
      std::size_t const to = output_bytes(part.begin - shard(peer).begin);
      product(rank, part.rows(), at(mine.a, input_bytes(part.begin)), mine.b, at(sent(rank, peer), to), false,
              false, stream);
      one.fork->put(stream, side);
      ok(cudaMemcpyAsync(at(slot(peer, rank), to), at(sent(rank, peer), to), output_bytes(part.rows()),
                         cudaMemcpyDefault, side));
      ok(static_cast<cudaError_t>(send_arrived(words, peer, n, side)));
    }
    bool const shares = problem.collective == Collective::all_reduce;
    int const first = shares ? 0 : shard(rank).begin;
    for (int n = 0; n < parts; ++n) {
      auto const part = part_of(rank, n);
      if (part.rows() == 0) continue;
      ok(static_cast<cudaError_t>(await_arrived(words, peer, n, stream)));
      void* const to = at(mine.d, output_bytes(part.begin - first));
      void const* const come = at(slot(rank, peer), output_bytes(part.begin - shard(rank).begin));
      adding_product(rank, part.rows(), {at(mine.a, input_bytes(part.begin)), mine.b, to, come}, stream);
      if (!shares) continue;
      one.fork->put(stream, side);
      ok(cudaMemcpyAsync(at(operands[static_cast<std::size_t>(peer)].d, output_bytes(part.begin)), to,
                         output_bytes(part.rows()), cudaMemcpyDefault, side));
    }
    one.join->put(side, stream);
    if (shares) ok(static_cast<cudaError_t>(meet_done(words, stream)));
  }

  /// Own rows at once, while a copy engine sends them to the peers; a peer's when they have come.
  void by_gathering(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    auto const& one = ranks[static_cast<std::size_t>(rank)];
    auto const side = one.side->get();
    one.fork->put(stream, side);
    // A peer that has begun has read what it was sent the launch before.
    ok(static_cast<cudaError_t>(begin_together(operation(rank), side)));
    auto const own_rows = shard(rank);
    for (int step = 0; step + 1 < count() && own_rows.rows() > 0; ++step) {
      int const peer = send_order(count(), rank, step);
      // Not cudaMemcpyPeerAsync(), which cannot be captured.
      ok(cudaMemcpyAsync(slot(peer, rank), mine.a, input_bytes(own_rows.rows()), cudaMemcpyDefault, side));
      ok(static_cast<cudaError_t>(send_arrived(operation(rank), peer, 0, side)));
    }
    for (int step = 0; step < count(); ++step) {
      int const source = receive_order(count(), rank, step);
      auto const rows = shard(source);
      if (rows.rows() == 0) continue;
      if (source != rank) ok(static_cast<cudaError_t>(await_arrived(operation(rank), source, 0, stream)));
      product(rank, rows.rows(), source == rank ? mine.a : slot(rank, source), mine.b,
              at(mine.d, output_bytes(rows.begin)), false, false, stream);
    }
    one.join->put(side, stream);
  }

  // By a library: what comes before NCCL's call, the call, and what comes behind it.
  void before_library(int rank, Operands const& mine, cudaStream_t stream) {
    if (problem.collective != Collective::all_gather)
      product(rank, problem.rows, mine.a, mine.b, partial(rank), false, false, stream);
    else if (problem.rows % count() != 0)
      ok(cudaMemcpyAsync(sent(rank, 0), mine.a, input_bytes(shard(rank).rows()), cudaMemcpyDeviceToDevice,
                         stream));
  }
  void call_library(int rank, Operands const& mine, cudaStream_t stream) const {
    auto const kind = problem.type == ElementType::bf16 ? gpu::Nccl::Type::bf16 : gpu::Nccl::Type::fp16;
    bool const padded = problem.rows % count() != 0;
    auto const each = static_cast<std::size_t>(slot_elements(problem));
    switch (problem.collective) {
      case Collective::all_reduce:
        nccl->all_reduce(rank, partial(rank), mine.d, output_bytes(problem.rows) / k_element, kind, stream);
        break;
      case Collective::reduce_scatter:
        nccl->reduce_scatter(rank, partial(rank), padded ? sent(rank, 0) : mine.d, each, kind, stream);
        break;
      case Collective::all_gather:
        nccl->all_gather(rank, padded ? sent(rank, 0) : mine.a, slot(rank, 0), each, kind, stream);
        break;
    }
  }
  void after_library(int rank, Operands const& mine, cudaStream_t stream) {
    if (problem.collective == Collective::all_gather)
      product(rank, problem.rows, slot(rank, 0), mine.b, mine.d, false, false, stream);
    else if (problem.collective == Collective::reduce_scatter && problem.rows % count() != 0)
      ok(cudaMemcpyAsync(mine.d, sent(rank, 0), output_bytes(shard(rank).rows()), cudaMemcpyDeviceToDevice,
                         stream));
  }

  void enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
    Select const current(group->device(rank));
    ranks[static_cast<std::size_t>(rank)].told->launched();
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    if (way == Way::words) {
      by_words(rank, operands, stream);
    } else if (way == Way::sequential) {
      before_library(rank, mine, stream);
      call_library(rank, mine, stream);
      after_library(rank, mine, stream);
    } else if (way == Way::add) {
      by_adding(rank, operands, stream);
    } else if (problem.collective == Collective::all_gather) {
      by_gathering(rank, operands, stream);
    } else {
      by_shards(rank, operands, stream);
    }
  }

  void enqueue_all(std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams) {
    auto const each = [&](auto const& act) {
      for (int rank = 0; rank < count(); ++rank) {
        Select const current(group->device(rank));
        act(rank, operands[static_cast<std::size_t>(rank)], streams[static_cast<std::size_t>(rank)]);
      }
    };
    if (way != Way::sequential) {
      each([&](int rank, Operands const&, cudaStream_t stream) { enqueue(rank, operands, stream); });
      return;
    }
    each([&](int rank, Operands const& mine, cudaStream_t stream) { before_library(rank, mine, stream); });
    gpu::Nccl::Group calls(*nccl);
    each([&](int rank, Operands const& mine, cudaStream_t stream) { call_library(rank, mine, stream); });
    calls.end();
    each([&](int rank, Operands const& mine, cudaStream_t stream) { after_library(rank, mine, stream); });
  }

  /// What `act` throws leaves some ranks a launch behind.
  template <class Act>
  void unbroken(Act const& act) {
    try {
      act();
    } catch (...) {
      broken = true;
      // A kernel that was not launched is no error of the next one.
      (void)cudaGetLastError();
      throw;
    }
  }

  /// Makes what operands need when they are new, of all ranks before one of them waits for another: to
  /// allocate memory may take until a GPU is idle.
  void prepare(std::vector<Operands> const& operands) {
    for (int rank = 0; rank < count() && way == Way::words; ++rank) {
      Select const current(group->device(rank));
      auto const& mine = operands[static_cast<std::size_t>(rank)];
      must(pieces.at(problem.rows).prepare({mine.a, mine.b, partial(rank)}));
    }
  }
};

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
