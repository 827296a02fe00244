// SPDX-License-Identifier: Apache-2.0
#include "planned.hpp"

#include "bench/predict/recipes.hpp"
#include "kernels/gemm_sm90/catalogue.hpp"
#include "kernels/mlp/candidates.hpp"
#include "kernels/mlp/halves.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::bench {
namespace {

// Below, both products in one launch are faster, which is no pair.
constexpr int least_tokens = 129;
// Not every plan is one that the MLP's own launcher knows: the best that is.
constexpr int plans_looked_at = 8;

std::optional<gemm_sm90::Half> compiled(Plan const& plan, std::size_t s) {
  auto const& stage = plan.pipeline.stages[s];
  auto const* entry = shipped_kernels().find(stage.kernel);
  if (entry == nullptr || entry->family != "gemm_sm90") return {};
  auto const epilogue = stage.activation == "gelu"     ? Epilogue::gelu
                        : stage.activation == "swiglu" ? Epilogue::swiglu
                                                       : Epilogue::none;
  auto const* kernel =
      gemm_sm90::find_kernel(gemm_sm90::compiled_name(*entry, epilogue, tessera::ElementType::bf16).c_str());
  if (kernel == nullptr) return {};
  auto const& planned = plan.stages[s];
  return gemm_sm90::Half{kernel, planned.order.bands ? planned.order.bands->rows : 1,
                         planned.persistent_blocks};
}

std::optional<gemm_sm90::PairPlan> pair_of(Plan const& plan) {
  auto const mechanism = mechanism_of(plan);
  if (plan.stages.size() != 2 || !mechanism) return {};
  auto const first = compiled(plan, 0), second = compiled(plan, 1);
  if (!first || !second) return {};
  gemm_sm90::PairPlan pair{*first,
                           *second,
                           gemm_sm90::Mechanism::stream_order,
                           1,
                           plan.stages[1].reorder_loads,
                           plan.launches.front().start == LaunchStart::early};
  switch (*mechanism) {
    case Mechanism::stream_order: return pair;
    case Mechanism::pdl: pair.mechanism = gemm_sm90::Mechanism::pdl; return pair;
    case Mechanism::pdl_tiles: break;
    default: return {};
  }
  pair.mechanism = gemm_sm90::Mechanism::pdl_tiles;
  auto const& map = plan.semaphores.front().map;
  if (map.dimension[1].grouping != Grouping::each) return {};
  auto const& columns = map.dimension[0];
  if (columns.grouping == Grouping::all) pair.columns_per_semaphore = mlp::whole_row;
  if (columns.grouping == Grouping::block) pair.columns_per_semaphore = columns.width;
  if (columns.grouping == Grouping::stride) return {};
  return pair;
}

}  // namespace

std::optional<mlp::Candidate> planned_candidate(mlp::Shape const& shape, std::string const& machine_name) {
  auto const profile = machine(machine_name);
  if (!profile || shape.type != mlp::ElementType::bf16 || shape.tokens < least_tokens) return {};
  PlanOptions options;
  options.chained = true;  // MLPs run back to back
  options.keep = plans_looked_at;
  auto const graph = mlp_graph({shape.model, shape.hidden, shape.tokens, shape.form == mlp::Form::swiglu});
  auto const plans = rank_by_simulation(graph, shipped_kernels(), *profile, options);
  if (!plans) return {};
  for (auto const& plan : *plans)
    if (auto const pair = pair_of(plan))
      if (auto candidate = mlp::tiled_pair(shape, *pair)) return candidate;
  return {};
}

}  // namespace tessera::bench
