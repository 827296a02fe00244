// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/workload.hpp"

namespace tessera {

std::string const& name_of(Workload const& workload) {
  if (auto const* graph = std::get_if<OperatorGraph>(&workload)) return graph->name;
  if (auto const* pipeline = std::get_if<Pipeline>(&workload)) return pipeline->name;
  return std::get<Loop>(workload).body.name;
}

}  // namespace tessera
