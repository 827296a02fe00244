// SPDX-License-Identifier: Apache-2.0
// The MLP of a tensor-parallel layer: a product, its activation, and a product whose sums the ranks share,
// with the collectives of both overlapped.
//
//   tensor_parallel_mlp(group, {2048, 8192, 22016, mlp::Form::swiglu}, operands, streams);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/common/mlp_problem.hpp"
#include "kernels/gemm_collectives/product_pair.hpp"

namespace tessera::gemm_collectives {

/// y = h * w2^T, h as the form says (kernels/common/mlp_problem.hpp). A rank has hidden / ranks features:
///   w1[hidden / ranks][model], of SwiGLU 2 * hidden / ranks rows, gate and up by turns; w2[model][hidden /
///   ranks] spread: x[its tokens][model], y[its tokens][model], as shard_of() says whole:  x[tokens][model],
///   y[tokens][model]
struct MlpProblem {
  int tokens = 0;
  int model = 0;
  int hidden = 0;
  mlp::Form form = mlp::Form::swiglu;
  Tokens rows = Tokens::spread;
  ElementType type = ElementType::bf16;
  int ranks = 2;

  int local_hidden() const { return hidden / ranks; }
  /// Columns of the first product on a rank.
  int local_columns() const { return (form == mlp::Form::swiglu ? 2 : 1) * local_hidden(); }
  auto operator<=>(MlpProblem const&) const = default;
};

/// "tensor-parallel MLP of 8 tokens, 8192 x 22016, swiglu, on 2 GPUs".
std::string to_string(MlpProblem const& problem);

/// Its products with a collective. The first one of whole tokens is a product alone.
Problem first_product(MlpProblem const& problem);
Problem second_product(MlpProblem const& problem);

/// `first`: of whole tokens the kernel counts.
using MlpOptions = PairOptions;
using MlpOperands = PairOperands;

class TensorParallelMlp {
 public:
  /// Errors as GemmCollective::make() has; of several processes a call of all ranks. Holds, beside what its
  /// products do, what is between them: tokens times local_columns(), and of SwiGLU once more half of that.
  static Expected<TensorParallelMlp> make(std::shared_ptr<PeerGroup> group, MlpProblem problem,
                                          MlpOptions const& options = {});

  /// Enqueues the parts of all ranks of this process, as GemmCollective::run() does. May be captured.
  Expected<void> run(std::vector<MlpOperands> const& operands, std::vector<cudaStream_t> const& streams);
  /// Waits for the group's GPUs: GemmCollective::finish() of both products.
  Expected<void> finish();
  /// As GemmCollective's.
  Expected<void> finish_own();
  Expected<void> hear_of_others() const;

  MlpProblem const& problem() const;
  /// "copy, cublaslt(...); add, cublaslt(...), parts: 2".
  std::string name() const;

 private:
  TensorParallelMlp(MlpProblem const& problem, ProductPair pair)
      : problem_(problem), pair_(std::move(pair)) {}
  MlpProblem problem_;
  ProductPair pair_;
};

}  // namespace tessera::gemm_collectives
