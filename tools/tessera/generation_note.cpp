// SPDX-License-Identifier: Apache-2.0
#include "generation_note.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::cli {
namespace {

bool generates(SizedWorkload const& sized) {
  auto const* const graph = std::get_if<OperatorGraph>(&sized.workload);
  return graph != nullptr && graph->attention.tokens == 1 && graph->attention.cached > 0 &&
         std::any_of(graph->operators.begin(), graph->operators.end(),
                     [](Operator const& op) { return op.kind == OperatorKind::attention; });
}

}  // namespace

std::string generation_note(std::vector<SizedWorkload> const& workloads, WorkloadOptions const& options,
                            std::string const& machine) {
  if (std::none_of(workloads.begin(), workloads.end(), generates)) return {};
  auto command = fmt::format("tessera run {} --decode --predict", options.workload);
  if (options.sequences) command += fmt::format(" --sequences {}", *options.sequences);
  if (options.cached) command += fmt::format(" --cached {}", *options.cached);
  if (options.tensor_parallel) command += fmt::format(" --tp {}", *options.tensor_parallel);
  if (machine != "h200") command += fmt::format(" --machine {}", machine);
  return "note: these are kernels for prompts, and no run launches them for one new token behind cached "
         "ones; "
         "generation has kernels of its own, and what a token takes with them says: " +
         command;
}

}  // namespace tessera::cli
