// SPDX-License-Identifier: Apache-2.0
#include "reference.hpp"

#include <algorithm>
#include <cmath>

#include "refused.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;
using gpu::Select;

std::size_t columns_of(Problem const& problem) { return static_cast<std::size_t>(problem.local_columns()); }

RowRange rows_of_result(Problem const& problem, int rank) {
  return problem.collective == Collective::reduce_scatter ? shard_of(problem.rows, problem.ranks, rank)
                                                          : RowRange{0, problem.rows};
}

/// The product of what a rank has, on its GPU, in `to` of all rows or of its own.
void product(PeerGroup const& group, Problem const& problem, int rank, void const* a, void const* b, int rows,
             float* to) {
  if (rows == 0) return;
  Select const current(group.device(rank));
  gpu::Stream const stream;
  bench::reference_gemm(a, b, to, rows, problem.local_columns(), problem.local_depth(), problem.type,
                        stream.get());
  ok(cudaStreamSynchronize(stream.get()));
}

double error_of(PeerGroup const& group, Problem const& problem, int rank, void const* d,
                float const* reference) {
  auto const elements = static_cast<std::size_t>(rows_of_result(problem, rank).rows()) * columns_of(problem);
  if (elements == 0) return 0;
  Select const current(group.device(rank));
  gpu::Stream const stream;
  return bench::relative_error(d, reference, elements, problem.type, stream.get());
}

/// NaN is worse than all.
double worse(double one, double other) { return std::isnan(one) || one > other ? one : other; }

double error_of_sums(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                     std::vector<Operands> const& operands) {
  auto const elements = static_cast<std::size_t>(problem.rows) * columns_of(problem);
  auto const fp32 = must(PeerMemory::make(group, 4 * elements));
  std::vector<float> sum(elements), part(elements);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    product(*group, problem, rank, mine.a, mine.b, problem.rows, static_cast<float*>(fp32.at(rank)));
    ok(cudaMemcpy(part.data(), fp32.at(rank), 4 * elements, cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < elements; ++i) sum[i] += part[i];
  }
  double worst = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    auto const rows = rows_of_result(problem, rank);
    auto const first = static_cast<std::size_t>(rows.begin) * columns_of(problem);
    auto const count = static_cast<std::size_t>(rows.rows()) * columns_of(problem);
    ok(cudaMemcpy(fp32.at(rank), sum.data() + first, 4 * count, cudaMemcpyHostToDevice));
    worst = worse(error_of(*group, problem, rank, operands[static_cast<std::size_t>(rank)].d,
                           static_cast<float const*>(fp32.at(rank))),
                  worst);
  }
  return worst;
}

double error_of_gathered(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                         std::vector<Operands> const& operands) {
  auto const depth = static_cast<std::size_t>(problem.depth);
  auto const elements = static_cast<std::size_t>(problem.rows) * columns_of(problem);
  auto const shard = static_cast<std::size_t>(most_shard_rows(problem.rows, problem.ranks));
  auto const fp32 = must(PeerMemory::make(group, 4 * elements)),
             come = must(PeerMemory::make(group, 2 * shard * depth));
  double worst = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    auto* const to = static_cast<float*>(fp32.at(rank));
    for (int source = 0; source < problem.ranks; ++source) {
      auto const rows = shard_of(problem.rows, problem.ranks, source);
      ok(cudaMemcpy(come.at(rank), operands[static_cast<std::size_t>(source)].a,
                    2 * static_cast<std::size_t>(rows.rows()) * depth, cudaMemcpyDefault));
      product(*group, problem, rank, come.at(rank), mine.b, rows.rows(),
              to + static_cast<std::size_t>(rows.begin) * columns_of(problem));
    }
    worst = worse(error_of(*group, problem, rank, mine.d, to), worst);
  }
  return worst;
}

}  // namespace

void poison_results(PeerGroup const& group, Problem const& problem, std::vector<Operands> const& operands) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    Select const current(group.device(rank));
    gpu::Stream const stream;
    auto const rows = static_cast<std::size_t>(rows_of_result(problem, rank).rows());
    if (rows > 0)
      bench::poison(operands[static_cast<std::size_t>(rank)].d, rows * columns_of(problem), stream.get());
    ok(cudaStreamSynchronize(stream.get()));
  }
}

double worst_error(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                   std::vector<Operands> const& operands) {
  return problem.collective == Collective::all_gather ? error_of_gathered(group, problem, operands)
                                                      : error_of_sums(group, problem, operands);
}

}  // namespace tessera::gemm_collectives
