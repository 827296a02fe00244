// SPDX-License-Identifier: Apache-2.0
#include "product_pair.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "one_call.hpp"
#include "operand_memory.hpp"
#include "piece.hpp"
#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/relaxed_capture.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;
using kernels::refusal;

struct ProductPair::State {
  std::shared_ptr<PeerGroup> group;
  PairShape shape;
  std::optional<GemmCollective> first;  ///< of spread tokens
  std::map<int, Piece> alone;           ///< of whole ones, by rank
  std::optional<GemmCollective> second;
  /// [what the first product leaves, if it is apart][what the second multiplies][workspace].
  std::optional<PeerMemory> between;
  std::size_t to_at = 0, workspace_at = 0;
  std::mutex mutex;  ///< two calls share what is between the products: theirs are enqueued one by one

  void* at(int rank, std::size_t offset) const { return static_cast<char*>(between->at(rank)) + offset; }
  void* to(int rank) const { return at(rank, to_at); }
  void* left(int rank) const { return shape.adjoined ? to(rank) : at(rank, 0); }
  cublaslt::LtProblem first_alone() const {
    auto const& one = shape.first;
    return {one.rows, one.local_columns(), one.depth, one.type, one.gelu};
  }

  Expected<void> make(PairOptions const& options, Between const& warm);
  void make_memory();
  void warm_up(Between const& act) const;
  Expected<void> check(std::vector<PairOperands> const& operands,
                       std::vector<cudaStream_t> const& streams) const;
  /// What ranks do alone, between what they do together.
  void enqueue_between(std::vector<PairOperands> const& operands, std::vector<cudaStream_t> const& streams,
                       Between const& act) const;
};

namespace {

std::size_t up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// A kernel that was tuned for the product without its GeLU may be none with it.
Options options_for(std::shared_ptr<PeerGroup> const& group, Problem problem, Options options) {
  if (options.way != Way::automatic) return options;
  bool const gelu = problem.gelu;
  problem.gelu = false;
  auto const known = remembered(group, problem);
  if (!known) return options;
  double const deadline_s = options.deadline_seconds;
  options = *known;
  options.deadline_seconds = deadline_s;
  if (gelu) options.kernel = {};
  return options;
}

}  // namespace

void ProductPair::State::make_memory() {
  auto const tokens = static_cast<std::size_t>(shape.first.rows);
  constexpr std::size_t k_element = 2;
  to_at = shape.adjoined ? 0 : up(k_element * tokens * static_cast<std::size_t>(shape.first.local_columns()));
  workspace_at = to_at + up(k_element * tokens * static_cast<std::size_t>(shape.second.local_depth()));
  std::size_t workspace = 1;
  for (auto const& [rank, piece] : alone) workspace = std::max(workspace, piece.workspace_bytes());
  between.emplace(must(PeerMemory::make(group, workspace_at + workspace, Reached::by_its_rank)));
}

void ProductPair::State::warm_up(Between const& act) const {
  auto const depth = static_cast<std::size_t>(shape.first.depth);
  auto const rows = static_cast<std::size_t>(std::max(shape.first.rows, shape.first.local_columns()));
  std::optional<PeerMemory> zeros;
  if (!alone.empty()) zeros.emplace(must(PeerMemory::make(group, 2 * rows * depth, Reached::by_its_rank)));
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    gpu::Stream const stream;
    if (auto const piece = alone.find(rank); piece != alone.end())
      must(piece->second.run({zeros->at(rank), zeros->at(rank), left(rank)}, at(rank, workspace_at), false,
                             false, stream.get()));
    if (!shape.adjoined) act(rank, left(rank), to(rank), stream.get());
    ok(cudaStreamSynchronize(stream.get()));
  }
}

Expected<void> ProductPair::State::make(PairOptions const& options, Between const& warm) {
  gpu::RelaxedCapture const relaxed;
  for (auto const& product : {shape.first, shape.second})
    if (auto fine = check_problem(product); !fine) return fine;
  // What no other rank has to do with comes first.
  if (shape.rows == Tokens::whole)
    for (int const rank : group->here()) {
      Select const current(group->device(rank));
      auto piece = Piece::make(first_alone(), options.first.kernel, options.first.deadline_seconds);
      if (!piece) return tl::make_unexpected(piece.error());
      alone.emplace(rank, std::move(*piece));
    }
  make_memory();
  warm_up(warm);
  if (shape.rows == Tokens::spread) {
    auto made = GemmCollective::make(group, shape.first, options_for(group, shape.first, options.first));
    if (!made) return tl::make_unexpected(made.error());
    first.emplace(std::move(*made));
  }
  auto made = GemmCollective::make(group, shape.second, options_for(group, shape.second, options.second));
  if (!made) return tl::make_unexpected(made.error());
  second.emplace(std::move(*made));
  return {};
}

Expected<ProductPair> ProductPair::make(std::shared_ptr<PeerGroup> group, PairShape shape,
                                        PairOptions const& options, Between const& warm_up) {
  auto state = std::make_shared<State>();
  state->group = std::move(group);
  state->shape = std::move(shape);
  try {
    if (auto done = state->make(options, warm_up); !done) return tl::make_unexpected(done.error());
  } catch (std::exception const& error) {
    return failed(error);
  }
  return ProductPair(std::move(state));
}

Expected<void> ProductPair::State::check(std::vector<PairOperands> const& operands,
                                         std::vector<cudaStream_t> const& streams) const {
  gpu::RelaxedCapture const relaxed;
  auto const& here = group->here();
  if (operands.size() != static_cast<std::size_t>(group->size()) || streams.size() != here.size())
    return refusal(
        "E0581",
        "operands of " + std::to_string(operands.size()) + " ranks and " + std::to_string(streams.size()) +
            " streams for " + std::to_string(group->size()) + " GPUs",
        "give operands for each rank of the group, and a stream for each rank of this process", {shape.name});
  for (int const rank : here) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    bool const owns =
        shape.rows == Tokens::whole || shard_of(shape.first.rows, group->size(), rank).rows() > 0;
    struct Named {
      char const* name;
      void const* memory;
      bool needed;
    };
    for (auto const& [name, memory, needed] :
         {Named{"x", mine.x, owns}, Named{shape.weights[0].c_str(), mine.w1, true},
          Named{shape.weights[1].c_str(), mine.w2, true}, Named{"y", mine.y, owns}})
      if ((memory == nullptr && needed) || reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
        return refusal(
            "E0581",
            std::string(name) + " of rank " + std::to_string(rank) + " is missing or not 16-byte aligned",
            "give x, " + shape.weights[0] + ", " + shape.weights[1] + " and y in the memory of its GPU",
            {shape.name});
    // Of the others the products with a collective ask whose memory they are.
    if (shape.rows == Tokens::spread) continue;
    for (auto const& [name, memory] : {std::pair{"x", mine.x}, std::pair{shape.weights[0].c_str(), mine.w1}})
      if (auto fine = check_memory(*group, rank, name, memory, false, shape.name); !fine) return fine;
  }
  return {};
}

void ProductPair::State::enqueue_between(std::vector<PairOperands> const& operands,
                                         std::vector<cudaStream_t> const& streams, Between const& act) const {
  auto stream = streams.begin();
  for (int const rank : group->here()) {
    auto* const own = *stream++;
    Select const current(group->device(rank));
    // Behind a call before in another stream, which reads what is written here.
    gpu::PeerOrder::Turn const turn(group->order(), rank, own);
    if (auto const piece = alone.find(rank); piece != alone.end()) {
      auto const& mine = operands[static_cast<std::size_t>(rank)];
      must(piece->second.run({mine.x, mine.w1, left(rank)}, at(rank, workspace_at), false, false, own));
    }
    if (!shape.adjoined) act(rank, left(rank), to(rank), own);
  }
}

Expected<void> ProductPair::run(std::vector<PairOperands> const& operands,
                                std::vector<cudaStream_t> const& streams, Between const& between) {
  auto& state = *state_;
  std::lock_guard const lock(state.mutex);
  try {
    if (auto done = state.check(operands, streams); !done) return done;
    std::vector<Operands> one, other;
    for (int rank = 0; rank < state.group->size(); ++rank) {
      auto const& of = operands[static_cast<std::size_t>(rank)];
      bool const here = state.group->has(rank);
      one.push_back({of.x, of.w1, here ? state.left(rank) : nullptr});
      other.push_back({here ? state.to(rank) : nullptr, of.w2, of.y});
    }
    if (state.first)
      if (auto done = state.first->run(one, streams); !done) return done;
    state.enqueue_between(operands, streams, between);
    return state.second->run(other, streams);
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Expected<void> ProductPair::finish() {
  auto own = finish_own();
  return own ? hear_of_others() : own;
}

Expected<void> ProductPair::finish_own() {
  auto& state = *state_;
  std::lock_guard const lock(state.mutex);
  Diagnostics found;
  auto const add = [&](Expected<void> const& done) {
    if (!done) found.insert(found.end(), done.error().begin(), done.error().end());
  };
  if (state.first) add(state.first->finish_own());
  add(state.second->finish_own());
  // Last: they say what else has stalled, and the products have said theirs.
  for (auto const& [rank, piece] : state.alone) add(piece.finish());
  if (found.empty()) return {};
  return tl::make_unexpected(std::move(found));
}

Expected<void> ProductPair::hear_of_others() const { return state_->second->hear_of_others(); }

std::string ProductPair::name() const {
  auto const& state = *state_;
  return (state.first ? state.first->name() : state.alone.begin()->second.name()) + "; " +
         state.second->name();
}

}  // namespace tessera::gemm_collectives
