// SPDX-License-Identifier: Apache-2.0
// The paper's attention as separate kernels, in its ways.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdio>

#include "arguments.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"
#include "kernels/unfused_attention/unfused_run.hpp"
#include "tessera/plan/build.hpp"

namespace tessera::command {
namespace {

struct Way {
  char const* name;
  std::vector<Mechanism> mechanisms;
  bool strided;
};

/// Prints; whether all stages are right.
Expected<bool> run_way(Way const& way, Plan const& plan, unfused_attention::Operands const& operands,
                       int replays, cudaStream_t stream) {
  auto executable = operands.bind(plan);
  if (!executable) return tl::make_unexpected(executable.error());
  if (auto const ran = operands.run(*executable, stream); !ran) return tl::make_unexpected(ran.error());
  auto const us = unfused_attention::replayed_us(*executable, replays, stream);
  if (!us) return tl::make_unexpected(us.error());
  if (auto const ran = operands.run(*executable, stream); !ran) return tl::make_unexpected(ran.error());
  auto const compared = operands.compare(stream);
  if (!compared) return tl::make_unexpected(compared.error());
  std::printf("%s: %s\n", way.name, describe(plan).c_str());
  bool right = true;
  for (auto const& stage : *compared) {
    std::printf("  %-14s relative error %.2e of %.2e, %s\n", stage.stage.c_str(), stage.error, stage.allowed,
                stage.right() ? "right" : "WRONG");
    right = right && stage.right();
  }
  std::printf("  %.1f us a replay (median of %d, on the same operands), %.1f us predicted\n", *us, replays,
              plan.predicted_us);
  return right;
}

}  // namespace

Expected<bool> run_unfused(OperatorGraph const& graph, int replays) {
  auto const here = machine_here();
  if (!here) return tl::make_unexpected(here.error());
  cudaStream_t stream = nullptr;
  if (auto const error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); error != cudaSuccess)
    return kernels::cuda_failed(error, "cudaStreamCreateWithFlags");
  unfused_attention::Dropping const dropping;
  auto const operands = unfused_attention::Operands::make(graph, dropping, stream);
  if (!operands) return tl::make_unexpected(operands.error());
  std::printf("%s: separate kernels, %g of the weights dropped, seed %llu\n", graph.name.c_str(),
              static_cast<double>(dropping.share), dropping.seed);
  bool right = true;
  for (auto const& way :
       {Way{"stream order", {Mechanism::stream_order}, false},
        Way{"StridedSync + TileSync", {Mechanism::pdl_tiles}, true}, Way{"as planned", {}, false}}) {
    PlanOptions options;
    options.mechanisms = way.mechanisms;
    auto const plan = unfused_attention::plan_unfused(graph, *here, options, way.strided);
    if (!plan && way.strided && plan.error().front().code == "E0304") {
      std::printf("%s: %s\n", way.name, plan.error().front().message.c_str());
      continue;
    }
    if (!plan) return tl::make_unexpected(plan.error());
    auto const answer = run_way(way, *plan, *operands, replays, stream);
    if (!answer) return answer;
    right = right && *answer;
  }
  cudaStreamDestroy(stream);
  return right;
}

}  // namespace tessera::command
