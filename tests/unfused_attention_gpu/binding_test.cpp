// SPDX-License-Identifier: Apache-2.0
// What bindings make of plans of attention as separate kernels; no GPU is needed for that.
#include <gmock/gmock.h>

#include "kernels/unfused_attention/bind.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"
#include "layer_plans/layer_plan.hpp"

namespace tessera::unfused_attention {
namespace {

using testing::HasSubstr;

/// Buffers that nobody reads, each with an address of its own.
class FakeTensors {
 public:
  explicit FakeTensors(Plan const& plan) {
    std::size_t place = 0;
    for (auto const& buffer : plan.pipeline.buffers)
      tensors[buffer.name] = {memory_ + 256 * place++, buffer.rows, buffer.columns, buffer.batch, 0,
                              ElementType::bf16};
  }
  Tensors tensors;

 private:
  alignas(256) unsigned char memory_[256 * 16] = {};
};

/// Stages that are not bound, with the reason. Of gemm_sm90 all that may fail without a GPU is loading it.
std::vector<std::string> unbound(Plan const& plan, AttentionShape const& shape, Tensors const& tensors) {
  std::vector<std::string> reasons;
  auto const all = bindings(shape, {});
  Scratch scratch;
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l) {
    BindRequest const request{plan, l, kernels(), tensors, scratch};
    auto const bound = all.find(request.kernel().family)->bind(request);
    if (!bound && bound.error().front().code != "E0511" && bound.error().front().code != "E0533")
      reasons.push_back(request.stage().name + ": " + to_text(bound.error()));
  }
  return reasons;
}

OperatorGraph gpt3() {
  BlockOptions options;
  options.block = "attention";
  options.tokens = 512;
  options.tensor_parallel = 8;
  return graph_of(config_of("gpt-3-145b"), options);
}

Plan plan_in(OperatorGraph const& graph, Mechanism mechanism, bool strided) {
  PlanOptions options;
  options.mechanisms = {mechanism};
  return plan_unfused(graph, machine("h200").value(), options, strided).value();
}

TEST(UnfusedBinding, every_stage_is_bound_in_stream_order_and_by_strides) {
  auto const graph = gpt3();
  for (auto const& plan :
       {plan_in(graph, Mechanism::stream_order, false), plan_in(graph, Mechanism::pdl_tiles, true)}) {
    FakeTensors const fake(plan);
    EXPECT_THAT(unbound(plan, graph.attention, fake.tensors), testing::IsEmpty()) << describe(plan);
  }
}

TEST(UnfusedBinding, tensors_of_other_sizes_are_refused) {
  auto const graph = gpt3();
  auto const plan = plan_in(graph, Mechanism::stream_order, false);
  FakeTensors fake(plan);
  fake.tensors["qkv"].columns /= 2;
  EXPECT_THAT(unbound(plan, graph.attention, fake.tensors), testing::Contains(HasSubstr("scores: ")));
  fake.tensors.erase("softmax");
  EXPECT_THAT(unbound(plan, graph.attention, fake.tensors), testing::Contains(HasSubstr("context: ")));
}

}  // namespace
}  // namespace tessera::unfused_attention
