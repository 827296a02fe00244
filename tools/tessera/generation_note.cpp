// SPDX-License-Identifier: Apache-2.0
#include "generation_note.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {
namespace {

OperatorGraph const* step_of(SizedWorkload const& sized) {
  auto const* const graph = std::get_if<OperatorGraph>(&sized.workload);
  return graph != nullptr && generates(*graph) ? graph : nullptr;
}

/// Has the graph's attention a kernel for new tokens over a cache?
bool has_kernel(OperatorGraph const& graph) {
  auto const& kernels = shipped_kernels().kernels();
  return std::all_of(graph.operators.begin(), graph.operators.end(), [&](Operator const& op) {
    return op.kind != OperatorKind::attention ||
           std::any_of(kernels.begin(), kernels.end(), [&](KernelEntry const& kernel) {
             return kernel.of_new_tokens && computes(kernel, graph, op);
           });
  });
}

}  // namespace

std::string generation_note(std::vector<SizedWorkload> const& workloads, WorkloadOptions const& options,
                            std::string const& machine) {
  OperatorGraph const* step = nullptr;
  for (auto const& one : workloads)
    if (auto const* graph = step_of(one); graph != nullptr && (step == nullptr || has_kernel(*step)))
      step = graph;
  if (step == nullptr) return {};
  auto command = fmt::format("tessera run {} --decode --predict", options.workload);
  if (options.sequences) command += fmt::format(" --sequences {}", *options.sequences);
  if (options.cached) command += fmt::format(" --cached {}", *options.cached);
  if (options.tensor_parallel) command += fmt::format(" --tp {}", *options.tensor_parallel);
  if (machine != "h200") command += fmt::format(" --machine {}", machine);
  auto const& a = step->attention;
  if (!has_kernel(*step))
    return fmt::format(
        "note: these are kernels for prompts, which no run launches: there is none for one new token behind "
        "cached ones in {}, with {} query heads of {} to a key head; in bf16 (--dtype bf16) there are for up "
        "to 8 "
        "of "
        "64, 96 and 128",
        to_text(step->type), a.query_heads / a.kv_heads, a.head_dim);
  return "note: a decoder runs all layers of a token, with norms and rotations inside of products and "
         "attention; what that takes says: " +
         command;
}

}  // namespace tessera::cli
