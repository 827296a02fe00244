// SPDX-License-Identifier: Apache-2.0
#include "planned.hpp"

#include "bench/predict/candidates.hpp"
#include "kernels/mlp/candidates.hpp"
#include "kernels/mlp/halves.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera::bench {
namespace {

constexpr int whole_row = 1 << 20;
// Below, another kind of kernel is faster, which the catalogue has not (kernels/skinny_mlp_sm90).
constexpr int least_tokens = 129;

std::optional<gemm_sm90::Half> compiled(HalfChoice const& half, bool gated) {
  auto const* kernel = gemm_sm90::find_kernel((half.kernel + (gated ? "_gated" : "")).c_str());
  if (kernel == nullptr) return {};
  return gemm_sm90::Half{kernel, half.band, half.persistent ? mlp::multiprocessors() : 0};
}

gemm_sm90::Mechanism mechanism_of(Mechanism mechanism) {
  if (mechanism == Mechanism::pdl) return gemm_sm90::Mechanism::pdl;
  if (mechanism == Mechanism::pdl_tiles) return gemm_sm90::Mechanism::pdl_tiles;
  return gemm_sm90::Mechanism::stream_order;
}

}  // namespace

std::optional<mlp::Candidate> planned_candidate(mlp::Shape const& shape, std::string const& machine_name) {
  auto const profile = machine(machine_name);
  if (!profile || shape.type != mlp::ElementType::bf16 || shape.tokens < least_tokens) return {};
  bool const gated = shape.form == mlp::Form::swiglu;
  auto const runs = [](std::string const& kernel, bool with_gate) {
    return gemm_sm90::find_kernel((kernel + (with_gate ? "_gated" : "")).c_str()) != nullptr;
  };
  for (auto const& [choice, us] : ranked({shape.model, shape.hidden, shape.tokens, gated}, *profile, runs)) {
    auto const first = compiled(choice.first, gated), second = compiled(choice.second, false);
    if (!first || !second) continue;
    gemm_sm90::PairPlan plan{*first,        *second, mechanism_of(choice.mechanism), 1, choice.early_weights,
                             choice.chained};
    if (choice.columns_per_semaphore != 1)
      plan.columns_per_semaphore =
          choice.columns_per_semaphore == 0 ? whole_row : choice.columns_per_semaphore;
    if (auto pair = mlp::tiled_pair(shape, plan)) return pair;
  }
  return {};
}

}  // namespace tessera::bench
