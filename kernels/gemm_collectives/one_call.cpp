// SPDX-License-Identifier: Apache-2.0
#include "one_call.hpp"

#include "kept_calls.hpp"
#include "parallel_mlp.hpp"

namespace tessera::gemm_collectives {
namespace {

using Products = KeptCalls<GemmCollective, Problem, Options>;
using Mlps = KeptCalls<TensorParallelMlp, MlpProblem, MlpOptions>;

// Never destroyed: when statics are, the driver may be gone.
Products& products() {
  static auto& one = *new Products;
  return one;
}
Mlps& mlps() {
  static auto& one = *new Mlps;
  return one;
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

Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        Options const& options) {
  auto sizes = problem;
  sizes.ranks = group->size();
  return products().remember(group, sizes, options);
}

Expected<void> remember(std::shared_ptr<PeerGroup> const& group, MlpProblem const& problem,
                        MlpOptions const& options) {
  auto sizes = problem;
  sizes.ranks = group->size();
  return mlps().remember(group, sizes, options);
}

std::optional<Options> remembered(std::shared_ptr<PeerGroup> const& group, Problem const& problem) {
  return products().remembered(group, problem);
}

Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release) {
  Diagnostics missed;
  mlps().finish(group, missed);
  products().finish(group, missed);
  mlps().hear_of_others(group, missed);
  products().hear_of_others(group, missed);
  if (release) {
    mlps().forget(group);
    products().forget(group);
  }
  if (!missed.empty()) return tl::make_unexpected(std::move(missed));
  return {};
}

}  // namespace tessera::gemm_collectives
