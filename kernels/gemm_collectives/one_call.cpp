// SPDX-License-Identifier: Apache-2.0
#include "one_call.hpp"

#include "kept_calls.hpp"

namespace tessera::gemm_collectives {
namespace {

using Products = KeptCalls<GemmCollective, Problem, Options>;
using Mlps = KeptCalls<TensorParallelMlp, MlpProblem, MlpOptions>;
using Attentions = KeptCalls<TensorParallelAttention, AttentionProblem, AttentionOptions>;

// Never destroyed: when statics are, the driver may be gone.
Products& products() {
  static auto& one = *new Products;
  return one;
}
Mlps& mlps() {
  static auto& one = *new Mlps;
  return one;
}
Attentions& attentions() {
  static auto& one = *new Attentions;
  return one;
}

template <class Calls, class Sizes, class Settings>
Expected<void> remember_in(Calls& calls, std::shared_ptr<PeerGroup> const& group, Sizes sizes,
                           Settings const& settings) {
  sizes.ranks = group->size();
  return calls.remember(group, sizes, settings);
}

Expected<void> call(Collective collective, std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                    std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams) {
  return products().call(
      group, Problem{collective, sizes.rows, sizes.columns, sizes.depth, sizes.type, group->size()}, operands,
      streams);
}

}  // namespace

Expected<void> gemm_all_reduce(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams) {
  return call(Collective::all_reduce, group, sizes, operands, streams);
}
Expected<void> gemm_reduce_scatter(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                                   std::vector<Operands> const& operands,
                                   std::vector<cudaStream_t> const& streams) {
  return call(Collective::reduce_scatter, group, sizes, operands, streams);
}
Expected<void> all_gather_gemm(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams) {
  return call(Collective::all_gather, group, sizes, operands, streams);
}
Expected<void> tensor_parallel_mlp(std::shared_ptr<PeerGroup> const& group, MlpProblem problem,
                                   std::vector<MlpOperands> const& operands,
                                   std::vector<cudaStream_t> const& streams) {
  problem.ranks = group->size();
  return mlps().call(group, problem, operands, streams);
}

Expected<void> tensor_parallel_attention(std::shared_ptr<PeerGroup> const& group, AttentionProblem problem,
                                         std::vector<AttentionOperands> const& operands,
                                         std::vector<cudaStream_t> const& streams) {
  problem.ranks = group->size();
  // Before it is looked up: a scale that is no number has no place in an order.
  if (auto fine = check_problem(problem); !fine) return fine;
  return attentions().call(group, problem, operands, streams);
}

Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        Options const& options) {
  return remember_in(products(), group, problem, options);
}
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, MlpProblem const& problem,
                        MlpOptions const& options) {
  return remember_in(mlps(), group, problem, options);
}
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, AttentionProblem const& problem,
                        AttentionOptions const& options) {
  auto sizes = problem;
  sizes.ranks = group->size();
  if (auto fine = check_problem(sizes); !fine) return fine;
  return remember_in(attentions(), group, sizes, options);
}

std::optional<Options> remembered(std::shared_ptr<PeerGroup> const& group, Problem const& problem) {
  return products().remembered(group, problem);
}

Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release) {
  Diagnostics missed;
  auto const for_all = [](auto const& act) {
    act(attentions());
    act(mlps());
    act(products());
  };
  for_all([&](auto& calls) { calls.finish(group, missed); });
  for_all([&](auto& calls) { calls.hear_of_others(group, missed); });
  if (release) for_all([&](auto& calls) { calls.forget(group); });
  if (!missed.empty()) return tl::make_unexpected(std::move(missed));
  return {};
}

}  // namespace tessera::gemm_collectives
