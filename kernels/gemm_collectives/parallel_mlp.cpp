// SPDX-License-Identifier: Apache-2.0
#include "parallel_mlp.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "kernels/swiglu/swiglu.hpp"
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

std::string to_string(MlpProblem const& problem) {
  return "tensor-parallel MLP of " + std::to_string(problem.tokens) + " tokens, " +
         std::to_string(problem.model) + " x " + std::to_string(problem.hidden) +
         (problem.form == mlp::Form::swiglu ? ", swiglu, on " : ", gelu, on ") +
         std::to_string(problem.ranks) + " GPUs";
}

Problem first_product(MlpProblem const& problem) {
  Problem first{Collective::all_gather, problem.tokens, problem.ranks * problem.local_columns(),
                problem.model,          problem.type,   problem.ranks};
  first.gelu = problem.form == mlp::Form::gelu;
  return first;
}

Problem second_product(MlpProblem const& problem) {
  bool const whole = problem.rows == Tokens::whole;
  return {whole ? Collective::all_reduce : Collective::reduce_scatter,
          problem.tokens,
          problem.model,
          problem.hidden,
          problem.type,
          problem.ranks};
}

struct TensorParallelMlp::State {
  std::shared_ptr<PeerGroup> group;
  MlpProblem problem;
  std::optional<GemmCollective> first;  ///< of spread tokens
  std::map<int, Piece> alone;           ///< of whole ones, by rank
  std::optional<GemmCollective> second;
  /// [sums of the first product, if they are gated][h][workspace].
  std::optional<PeerMemory> between;
  std::size_t h_at = 0, workspace_at = 0;
  std::mutex mutex;  ///< two calls share what is between the products: theirs are enqueued one by one

  bool gated() const { return problem.form == mlp::Form::swiglu; }
  void* at(int rank, std::size_t offset) const { return static_cast<char*>(between->at(rank)) + offset; }
  void* h(int rank) const { return at(rank, h_at); }
  void* sums(int rank) const { return gated() ? at(rank, 0) : h(rank); }
  cublaslt::LtProblem first_alone() const {
    return {problem.tokens, problem.local_columns(), problem.model, problem.type, !gated()};
  }

  Expected<void> make(MlpOptions const& options);
  void make_memory();
  Expected<void> warm_up() const;
  Expected<void> check(std::vector<MlpOperands> const& operands,
                       std::vector<cudaStream_t> const& streams) const;
  /// What ranks do alone, between what they do together.
  void enqueue_between(std::vector<MlpOperands> const& operands,
                       std::vector<cudaStream_t> const& streams) const;
  void activate(int rank, cudaStream_t stream) const {
    if (!gated()) return;
    ok(kernels::swiglu(sums(rank), h(rank), problem.tokens, problem.local_hidden(), problem.type, stream));
  }
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

void TensorParallelMlp::State::make_memory() {
  auto const tokens = static_cast<std::size_t>(problem.tokens);
  constexpr std::size_t k_element = 2;
  h_at = gated() ? up(k_element * tokens * static_cast<std::size_t>(problem.local_columns())) : 0;
  workspace_at = h_at + up(k_element * tokens * static_cast<std::size_t>(problem.local_hidden()));
  std::size_t workspace = 1;
  for (auto const& [rank, piece] : alone) workspace = std::max(workspace, piece.workspace_bytes());
  between.emplace(must(PeerMemory::make(group, workspace_at + workspace, Reached::by_its_rank)));
}

/// A kernel that is first loaded behind one that waits for a peer would never start.
Expected<void> TensorParallelMlp::State::warm_up() const {
  auto const model = static_cast<std::size_t>(problem.model);
  auto const rows = static_cast<std::size_t>(std::max(problem.tokens, problem.local_columns()));
  std::optional<PeerMemory> zeros;
  if (!alone.empty()) zeros.emplace(must(PeerMemory::make(group, 2 * rows * model, Reached::by_its_rank)));
  for (int const rank : group->here()) {
    Select const current(group->device(rank));
    gpu::Stream const stream;
    if (auto const piece = alone.find(rank); piece != alone.end())
      must(piece->second.run({zeros->at(rank), zeros->at(rank), sums(rank)}, at(rank, workspace_at), false,
                             false, stream.get()));
    activate(rank, stream.get());
    ok(cudaStreamSynchronize(stream.get()));
  }
  return {};
}

Expected<void> TensorParallelMlp::State::make(MlpOptions const& options) {
  gpu::RelaxedCapture const relaxed;
  auto const one = first_product(problem), other = second_product(problem);
  if (auto fine = check_problem(one); !fine) return fine;
  if (auto fine = check_problem(other); !fine) return fine;
  // What no other rank has to do with comes first.
  if (problem.rows == Tokens::whole)
    for (int const rank : group->here()) {
      Select const current(group->device(rank));
      auto piece = Piece::make(first_alone(), options.first.kernel, options.first.deadline_seconds);
      if (!piece) return tl::make_unexpected(piece.error());
      alone.emplace(rank, std::move(*piece));
    }
  make_memory();
  if (auto done = warm_up(); !done) return done;
  if (problem.rows == Tokens::spread) {
    auto made = GemmCollective::make(group, one, options_for(group, one, options.first));
    if (!made) return tl::make_unexpected(made.error());
    first.emplace(std::move(*made));
  }
  auto made = GemmCollective::make(group, other, options_for(group, other, options.second));
  if (!made) return tl::make_unexpected(made.error());
  second.emplace(std::move(*made));
  return {};
}

Expected<TensorParallelMlp> TensorParallelMlp::make(std::shared_ptr<PeerGroup> group, MlpProblem problem,
                                                    MlpOptions const& options) {
  problem.ranks = group->size();
  if (problem.hidden < 1 || problem.hidden % (8 * problem.ranks) != 0)
    return refusal("E0581",
                   "hidden " + std::to_string(problem.hidden) + " is no multiple of " +
                       std::to_string(8 * problem.ranks) + ": of 8 features for each of " +
                       std::to_string(problem.ranks) + " GPUs",
                   "pad to a multiple of " + std::to_string(8 * problem.ranks), {to_string(problem)});
  auto state = std::make_shared<State>();
  state->group = std::move(group);
  state->problem = problem;
  try {
    if (auto done = state->make(options); !done) return tl::make_unexpected(done.error());
  } catch (std::exception const& error) {
    return failed(error);
  }
  return TensorParallelMlp(std::move(state));
}

Expected<void> TensorParallelMlp::State::check(std::vector<MlpOperands> const& operands,
                                               std::vector<cudaStream_t> const& streams) const {
  gpu::RelaxedCapture const relaxed;
  auto const& here = group->here();
  if (operands.size() != static_cast<std::size_t>(group->size()) || streams.size() != here.size())
    return refusal("E0581",
                   "operands of " + std::to_string(operands.size()) + " ranks and " +
                       std::to_string(streams.size()) + " streams for " + std::to_string(group->size()) +
                       " GPUs",
                   "give operands for each rank of the group, and a stream for each rank of this process",
                   {to_string(problem)});
  // The products look at the rest.
  for (int const rank : here) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    for (auto const& [name, memory] : {std::pair{"x", mine.x}, std::pair{"w1", mine.w1}}) {
      if (problem.rows == Tokens::spread) break;
      if (memory == nullptr || reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
        return refusal(
            "E0581",
            std::string(name) + " of rank " + std::to_string(rank) + " is missing or not 16-byte aligned",
            "give x, w1, w2 and y in the memory of its GPU", {to_string(problem)});
      if (auto fine = check_memory(*group, rank, name, memory, false, to_string(problem)); !fine) return fine;
    }
  }
  return {};
}

void TensorParallelMlp::State::enqueue_between(std::vector<MlpOperands> const& operands,
                                               std::vector<cudaStream_t> const& streams) const {
  auto stream = streams.begin();
  for (int const rank : group->here()) {
    auto* const own = *stream++;
    Select const current(group->device(rank));
    // Behind a call before in another stream, which reads what is written here.
    gpu::PeerOrder::Turn const turn(group->order(), rank, own);
    if (auto const piece = alone.find(rank); piece != alone.end()) {
      auto const& mine = operands[static_cast<std::size_t>(rank)];
      must(piece->second.run({mine.x, mine.w1, sums(rank)}, at(rank, workspace_at), false, false, own));
    }
    activate(rank, own);
  }
}

Expected<void> TensorParallelMlp::run(std::vector<MlpOperands> const& operands,
                                      std::vector<cudaStream_t> const& streams) {
  auto& state = *state_;
  std::lock_guard const lock(state.mutex);
  try {
    if (auto done = state.check(operands, streams); !done) return done;
    std::vector<Operands> one, other;
    for (int rank = 0; rank < state.group->size(); ++rank) {
      auto const& of = operands[static_cast<std::size_t>(rank)];
      bool const here = state.group->has(rank);
      one.push_back({of.x, of.w1, here ? state.sums(rank) : nullptr});
      other.push_back({here ? state.h(rank) : nullptr, of.w2, of.y});
    }
    if (state.first)
      if (auto done = state.first->run(one, streams); !done) return done;
    state.enqueue_between(operands, streams);
    return state.second->run(other, streams);
  } catch (std::exception const& error) {
    return failed(error);
  }
}

Expected<void> TensorParallelMlp::finish() {
  auto own = finish_own();
  return own ? hear_of_others() : own;
}

Expected<void> TensorParallelMlp::finish_own() {
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

Expected<void> TensorParallelMlp::hear_of_others() const { return state_->second->hear_of_others(); }

MlpProblem const& TensorParallelMlp::problem() const { return state_->problem; }

std::string TensorParallelMlp::name() const {
  auto const& state = *state_;
  return (state.first ? state.first->name() : state.alone.begin()->second.name()) + "; " +
         state.second->name();
}

}  // namespace tessera::gemm_collectives
