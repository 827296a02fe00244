// SPDX-License-Identifier: Apache-2.0
#include "parallel_mlp.hpp"

#include "kernels/common/refusal.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "src/gpu/check.hpp"

namespace tessera::gemm_collectives {
namespace {

/// GeLU is the end of the first product.
ProductPair::Between activation(MlpProblem const& problem) {
  return [problem](int, void* sums, void* h, cudaStream_t stream) {
    gpu::ok(kernels::swiglu(sums, h, problem.tokens, problem.local_hidden(), problem.type, stream));
  };
}

}  // namespace

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

Expected<TensorParallelMlp> TensorParallelMlp::make(std::shared_ptr<PeerGroup> group, MlpProblem problem,
                                                    MlpOptions const& options) {
  problem.ranks = group->size();
  if (problem.hidden < 1 || problem.hidden % (8 * problem.ranks) != 0)
    return kernels::refusal("E0581",
                            "hidden " + std::to_string(problem.hidden) + " is no multiple of " +
                                std::to_string(8 * problem.ranks) + ": of 8 features for each of " +
                                std::to_string(problem.ranks) + " GPUs",
                            "pad to a multiple of " + std::to_string(8 * problem.ranks),
                            {to_string(problem)});
  PairShape const shape{first_product(problem),          second_product(problem), problem.rows,
                        problem.form == mlp::Form::gelu, to_string(problem),      {"w1", "w2"}};
  auto pair = ProductPair::make(std::move(group), shape, options, activation(problem));
  if (!pair) return tl::make_unexpected(pair.error());
  return TensorParallelMlp(problem, std::move(*pair));
}

Expected<void> TensorParallelMlp::run(std::vector<MlpOperands> const& operands,
                                      std::vector<cudaStream_t> const& streams) {
  return pair_.run(operands, streams, activation(problem_));
}
Expected<void> TensorParallelMlp::finish() { return pair_.finish(); }
Expected<void> TensorParallelMlp::finish_own() { return pair_.finish_own(); }
Expected<void> TensorParallelMlp::hear_of_others() const { return pair_.hear_of_others(); }
MlpProblem const& TensorParallelMlp::problem() const { return problem_; }
std::string TensorParallelMlp::name() const { return pair_.name(); }

}  // namespace tessera::gemm_collectives
