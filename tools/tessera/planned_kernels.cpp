// SPDX-License-Identifier: Apache-2.0
#include "planned_kernels.hpp"

#include <fmt/format.h>

#include "session.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

constexpr std::string_view k_kind = "gemm_";  // the catalogue's name of a kernel is this and its tile shape

tl::unexpected<Diagnostics> unfit(std::string const& what) {
  return tl::make_unexpected(complaint("E0906", fmt::format("there are no kernels for {}", what),
                                       "tessera run without --planned takes what was tuned"));
}

/// "128x256x64_2x1 band 1 blocks 0".
std::string half(Stage const& stage, StagePlan const& planned, std::string const& suffix) {
  bool const row_major = planned.order.table.empty();
  return fmt::format("{}{} band {} blocks {}", stage.kernel.substr(k_kind.size()), suffix, row_major ? 1 : 4,
                     planned.persistent_blocks);
}

/// How the second kernel may start early; empty in stream order.
Expected<std::string> overlap(Plan const& plan) {
  std::string const early = plan.stages[1].reorder_loads ? ", early weights" : "";
  if (is_stream_order(plan)) return "";
  bool const starts_early = plan.launches.back().start == LaunchStart::early;
  if (starts_early && plan.semaphores.empty()) return "; pdl" + early;
  if (!starts_early || plan.semaphores.size() != 1)
    return unfit(fmt::format("{} between two GEMMs", mechanism_text(plan)));
  auto const& map = plan.semaphores.front().map;
  if (map.dimension[1].grouping != Grouping::each)
    return unfit("the policy " + plan.semaphores.front().policy);
  switch (map.dimension[0].grouping) {
    case Grouping::all: return "; row" + early;
    case Grouping::each: return "; 1 tiles" + early;
    case Grouping::block: return fmt::format("; {} tiles{}", map.dimension[0].width, early);
    case Grouping::stride: break;
  }
  return unfit("the policy " + plan.semaphores.front().policy);
}

}  // namespace

Expected<Plan> plan_for_kernels(OperatorGraph const& graph, MachineProfile const& machine) {
  PlanOptions options;
  options.mechanisms = {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles};
  options.policies = {"TileSync", "RowSync"};
  return choose(
      graph, machine, [&](Plan const& candidate) { return simulate(candidate, machine, {false}); }, options);
}

Expected<std::string> kernels_of(Plan const& plan, OperatorGraph const& graph, std::string const& data_type) {
  if (plan.pipeline.stages.size() != 2) return unfit(plan.pipeline.name);
  std::string const type = data_type == "fp16" ? "_fp16" : "";
  std::string const gate = graph.operators.front().epilogue == Epilogue::gelu ? "" : "_gated";
  for (auto const& stage : plan.pipeline.stages)
    if (stage.splits != 1 || stage.kernel.rfind(k_kind, 0) != 0)
      return unfit(fmt::format("{} in {} splits", stage.kernel, stage.splits));
  auto const how = overlap(plan);
  if (!how) return how;
  return half(plan.pipeline.stages[0], plan.stages[0], gate + type) + " > " +
         half(plan.pipeline.stages[1], plan.stages[1], type) + *how;
}

}  // namespace tessera::cli
