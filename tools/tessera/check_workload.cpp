// SPDX-License-Identifier: Apache-2.0
#include "check_workload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"
#include "plan/shapes.hpp"
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
    auto const kernel = std::find_if(catalogue.begin(), catalogue.end(),
                                     [&](KernelEntry const& one) { return computes(one, graph, op); });
    if (kernel == catalogue.end())
      return tl::make_unexpected(Diagnostics{no_kernel_of(catalogue, architecture, op, graph.type)});
    choices.push_back({*kernel, 1});
  }
  return tile(graph, choices);
}

}  // namespace tessera::cli
