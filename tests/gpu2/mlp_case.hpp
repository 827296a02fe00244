// SPDX-License-Identifier: Apache-2.0
// Operands, results and references of a tensor-parallel MLP on several GPUs.
#pragma once

#include <cmath>
#include <vector>

#include "block_case.hpp"
#include "kernels/common/mlp_reference.hpp"
#include "kernels/gemm_collectives/parallel_mlp.hpp"

namespace tessera::gemm_collectives {

/// Random operands, and what y should be, in fp32 without tensor cores.
class MlpCase {
 public:
  MlpCase(SomeGpus const& gpus, MlpProblem const& problem, unsigned seed = 1)
      : gpus_(gpus),
        problem_(on(problem, gpus.count())),
        x_(memory(model() * tokens())),
        w1_(memory(model() * static_cast<std::size_t>(problem_.local_columns()))),
        w2_(memory(model() * static_cast<std::size_t>(problem_.local_hidden()))),
        y_(gpus, problem.tokens, problem.model, problem.rows),
        reference_(must(PeerMemory::make(gpus.group, 4 * model() * tokens()))) {
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      auto const fill = [&](PeerMemory const& to, std::size_t count, unsigned what, double deviation) {
        bench::fill_random(to.at(rank), count, problem.type, 1000 * seed + 100 * what + unsigned(rank),
                           static_cast<float>(deviation), gpus.stream(rank));
      };
      // All ranks' x are one: rank 0's.
      if (rank == 0) fill(x_, model() * tokens(), 0, 1);
      fill(w1_, model() * static_cast<std::size_t>(problem_.local_columns()), 1,
           1 / std::sqrt(problem.model));
      fill(w2_, model() * static_cast<std::size_t>(problem_.local_hidden()), 2,
           1 / std::sqrt(problem.hidden));
      gpu::ok(cudaStreamSynchronize(gpus.stream(rank)));
    }
    for (int const rank : gpus.ranks())
      if (rank != 0) gpu::ok(cudaMemcpy(x_.at(rank), x_.at(0), 2 * model() * tokens(), cudaMemcpyDefault));
    make_reference();
    poison();
  }

  std::vector<MlpOperands> operands() const {
    std::vector<MlpOperands> all;
    for (int const rank : gpus_.ranks()) all.push_back(of(rank));
    return all;
  }
  void poison() const { y_.poison(); }
  BlockResult::Bits result(int rank) const { return y_.bits(rank); }
  void expect_right(std::string const& what) const {
    y_.expect_right(what, [&](int rank) {
      return bench::relative_error(y_.at(rank),
                                   static_cast<float const*>(reference_.at(rank)) + y_.first_element(rank),
                                   y_.own_elements(rank), problem_.type, gpus_.stream(rank));
    });
  }

 private:
  static MlpProblem on(MlpProblem problem, int ranks) {
    problem.ranks = ranks;
    return problem;
  }
  std::size_t model() const { return static_cast<std::size_t>(problem_.model); }
  std::size_t tokens() const { return static_cast<std::size_t>(problem_.tokens); }
  PeerMemory memory(std::size_t elements) const {
    return must(PeerMemory::make(gpus_.group, 2 * elements + 16));
  }
  MlpOperands of(int rank) const {
    auto const* const x = static_cast<unsigned short const*>(x_.at(rank));
    return {x + y_.first_element(rank), w1_.at(rank), w2_.at(rank), y_.at(rank)};
  }

  /// Each rank's features, by its own weights from all of x, and their sum.
  void make_reference() {
    std::vector<float> sum(model() * tokens()), part(sum.size());
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      auto const h = must(
          PeerMemory::make(gpus_.group, 2 * tokens() * static_cast<std::size_t>(problem_.local_hidden())));
      auto const sums = must(
          PeerMemory::make(gpus_.group, 4 * tokens() * static_cast<std::size_t>(problem_.local_columns())));
      mlp::Shape const shape{problem_.tokens, problem_.model, problem_.local_hidden(), problem_.form,
                             problem_.type};
      auto* const y = static_cast<float*>(reference_.at(rank));
      // Gate and up are rounded before the activation, as a kernel of its own takes them.
      mlp::reference_mlp(shape, {x_.at(rank), w1_.at(rank), h.at(rank), w2_.at(rank), nullptr},
                         static_cast<float*>(sums.at(rank)), nullptr, y, true, gpus_.stream(rank));
      gpu::ok(cudaStreamSynchronize(gpus_.stream(rank)));
      gpu::ok(cudaMemcpy(part.data(), y, 4 * part.size(), cudaMemcpyDefault));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (int const rank : gpus_.ranks())
      gpu::ok(cudaMemcpy(reference_.at(rank), sum.data(), 4 * sum.size(), cudaMemcpyDefault));
  }

  SomeGpus const& gpus_;
  MlpProblem problem_;
  PeerMemory x_, w1_, w2_;
  BlockResult y_;
  PeerMemory reference_;
};

}  // namespace tessera::gemm_collectives
