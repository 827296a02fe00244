// SPDX-License-Identifier: Apache-2.0
#include "check_workload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"
#include "session.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {

Expected<Pipeline> tiled(Workload const& workload, std::string const& architecture) {
  if (auto const* pipeline = std::get_if<Pipeline>(&workload)) return *pipeline;
  auto const& graph = std::get<OperatorGraph>(workload);
  auto const catalogue = shipped_kernels().for_architecture(architecture);
  if (catalogue.empty())
    return tl::make_unexpected(complaint(
        "E0911", fmt::format("there are no kernels for architecture \"{}\"", architecture),
        did_you_mean(architecture, {"sm_70", "sm_80", "sm_90"}), {"known: sm_70, sm_80 and sm_90"}));
  std::vector<TileChoice> choices;
  for (auto const& op : graph.operators) {
    auto const found = std::find_if(catalogue.begin(), catalogue.end(), [&](KernelEntry const& kernel) {
      return computes(kernel, op, graph.type);
    });
    if (found == catalogue.end()) {
      auto const heads = op.kind == OperatorKind::attention ? fmt::format(" with heads of {}", op.k) : "";
      auto missing = complaint(
          "E0305",
          fmt::format("no kernel for {} computes {}, of kind {} with epilogue {} in {}{}", architecture,
                      op.name, to_text(op.kind), to_text(op.epilogue), to_text(graph.type), heads),
          "describe its tiles (\"stages\"), or choose another architecture, type or size");
      missing.front().where = op.where;
      return tl::make_unexpected(std::move(missing));
    }
    choices.push_back({*found, 1});
  }
  return tile(graph, choices);
}

}  // namespace tessera::cli
