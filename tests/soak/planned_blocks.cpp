// SPDX-License-Identifier: Apache-2.0
// Plans of a small model's attention block and layer, by the library's own kernels and by cuBLASLt.
#include <stdexcept>

#include "kernels/bindings/families.hpp"
#include "kernels/plan_check/stage_check.hpp"
#include "layer_plans/layer_plan.hpp"
#include "soak/must.hpp"
#include "soak/workloads.hpp"

namespace tessera::soak {
namespace {

struct Bound {
  Plan plan;
  plan_check::Buffers buffers;
  std::unique_ptr<Executable> executable;

  Bound(Plan made, double deadline_seconds) : plan(std::move(made)) {
    if (auto done = buffers.make(plan, nullptr); !done) throw std::runtime_error(to_text(done.error()));
    must(cudaStreamSynchronize(nullptr), "buffers");
    ChainOptions options;
    options.deadline_seconds = deadline_seconds;
    executable = std::make_unique<Executable>(
        made_of(Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors, options)));
  }
  bool right() const {
    for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
      for (int i = 0; i < plan.launches[static_cast<std::size_t>(l)].stages; ++i) {
        auto const compared = plan_check::compare_stage(plan, l, i, buffers, nullptr);
        if (!compared || !compared->right()) return false;
      }
    return true;
  }

 private:
  static Executable made_of(Expected<Executable>&& outcome) {
    if (!outcome) throw std::runtime_error(to_text(outcome.error()));
    return std::move(*outcome);
  }
};

Ways ways_of_plan(Plan made, double deadline_seconds) {
  auto const bound = std::make_shared<Bound>(std::move(made), deadline_seconds);
  auto const& output = bound->buffers.tensors.at(plan_check::output_of(bound->plan.pipeline.stages.back()));
  Ways ways;
  // A layer stores the stream of residuals again: it is put back.
  ways.launch = [=](cudaStream_t in) {
    bound->buffers.poison(in);
    auto const done = bound->executable->launch(in);
    return done ? std::string() : to_text(done.error());
  };
  ways.finish = [=](cudaStream_t) {
    auto const done = bound->executable->finish();
    return done ? std::string() : to_text(done.error());
  };
  ways.is_right = [=] { return bound->right(); };
  ways.output = output.data;
  ways.words = plan_check::elements(output);
  return ways;
}

BlockOptions block(char const* name, std::int64_t tokens) {
  BlockOptions options;
  options.block = name;
  options.tokens = tokens;
  return options;
}

}  // namespace

Ways attention_block_ways(double deadline_seconds) {
  return ways_of_plan(early_block(graph_of(k_small_llama, block("fused_attention", 300)), true),
                      deadline_seconds);
}

Ways step_ways(double deadline_seconds) {
  auto options = block("fused_attention", 1);
  options.sequences = 3, options.cached = 700;
  PlanOptions chained;
  chained.chained = true;
  return ways_of_plan(plan_of_block(graph_of(k_small_llama, options), chained), deadline_seconds);
}

Ways layer_ways(double deadline_seconds) {
  PlanOptions options;
  options.mechanisms = {Mechanism::stream_order, Mechanism::pdl};
  options.max_priced = 8;
  return ways_of_plan(plan_of_block(graph_of(k_small_llama, block("layer", 300)), options), deadline_seconds);
}

}  // namespace tessera::soak
