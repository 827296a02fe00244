// SPDX-License-Identifier: Apache-2.0
// From a plan to kernels by their bindings; what is refused, and in which words.
#include "tessera/run/bindings.hpp"

#include <gmock/gmock.h>

#include "support/plans.hpp"

namespace tessera {
namespace {

KernelEntry entry(std::string name, std::string family) {
  KernelEntry kernel;
  kernel.name = std::move(name);
  kernel.family = std::move(family);
  kernel.architectures = {"sm_90"};
  kernel.forms = {{{ElementType::bf16}, {Epilogue::none}, 2, {}}};
  return kernel;
}

class BindingsTest : public testing::Test {
 protected:
  BindingsTest() {
    pipeline.name = "chain";
    pipeline.stages = {support::make_stage("one", 4, 2), support::make_stage("two", 4, 2)};
    for (auto& stage : pipeline.stages) {
      stage.kernel = "mine";
      stage.operands = {{"a", stage.name == "one" ? "x" : "one", 1, 1, 1}};
      stage.where = {"chain.json", 3};
    }
    pipeline.buffers = {{"x", 8, 16, 1, "bf16"}};
    for (auto const* name : {"x", "one", "two"}) tensors[name] = {&memory, 8, 16, 1, 0, ElementType::bf16};
    EXPECT_TRUE(add_kernel(kernels, bindings, entry("mine", "mine"), [this](BindRequest const& request) {
      asked.push_back(request.stage().name);
      if (auto a = tensor_of(request, 0, "a"); !a)
        return Expected<StageKernel>(tl::make_unexpected(a.error()));
      return Expected<StageKernel>(StageKernel{});
    }));
  }

  std::string refusal() {
    auto plan = support::make_plan(pipeline, support::ideal_machine(4), Mechanism::stream_order);
    plan.stages.front().variant = variant;
    auto const bound = bind_kernels(plan, kernels, bindings, tensors, scratch);
    return bound ? "accepted" : to_text(bound.error());
  }

  int memory = 0;
  Pipeline pipeline;
  Registry kernels;
  Bindings bindings;
  Tensors tensors;
  Scratch scratch;
  std::string variant;  ///< of the first stage
  std::vector<std::string> asked;
};

TEST(LentMemoryTest, places_follow_each_other_and_names_have_one) {
  LentMemory lent;
  alignas(256) static char memory[2048];
  lent.begin(memory);
  EXPECT_EQ(lent.bytes(), 0u);
  EXPECT_EQ(lent.place("h", 100), memory);
  EXPECT_EQ(lent.bytes(), 100u);
  EXPECT_EQ(lent.place("sums", 600), memory + 256);
  EXPECT_EQ(lent.place("h", 40), memory);
  EXPECT_EQ(lent.bytes(), 856u);
  EXPECT_EQ(lent.place("h", 101), memory + 1024);  // what was there before stays with those that have it
  EXPECT_EQ(lent.bytes(), 1125u);
  lent.begin(memory + 256);
  EXPECT_EQ(lent.place("sums", 8), memory + 256);
  EXPECT_EQ(lent.bytes(), 8u);
}

TEST_F(BindingsTest, a_variant_is_for_families_that_have_some) {
  variant = "fast";
  EXPECT_EQ(
      refusal(),
      "chain.json:3: error E0560: variant of one cannot run in kernel mine: it has none, and the plan says "
      "\"fast\"\n"
      "   hint: leave the variant out");
  EXPECT_THAT(asked, testing::IsEmpty());
  bindings.add(
      "mine",
      [this](BindRequest const& request) {
        asked.push_back(request.stage_plan().variant);
        return Expected<StageKernel>(StageKernel{});
      },
      [](BindRequest const&) {
        return std::vector<std::string>{"fast", "small"};
      });
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_THAT(asked, testing::ElementsAre("fast", ""));
  auto const plan = support::make_plan(pipeline, support::ideal_machine(4), Mechanism::stream_order);
  EXPECT_THAT(variants_of(plan, 1, kernels, bindings, tensors, scratch),
              testing::ElementsAre("fast", "small"));
}

TEST_F(BindingsTest, every_launch_gets_the_kernel_of_its_family) {
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_THAT(asked, testing::ElementsAre("one", "two"));
}

TEST_F(BindingsTest, a_kernel_is_registered_once) {
  auto const again = add_kernel(kernels, bindings, entry("mine", "other"), {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().front().code, "E0155");
  EXPECT_EQ(bindings.find("other"), nullptr);
}

TEST_F(BindingsTest, what_nobody_can_launch_is_refused) {
  pipeline.stages[1].kernel = "mind";
  EXPECT_EQ(refusal(),
            "chain.json:3: error E0562: kernel \"mind\" of two is not registered\n"
            "   hint: did you mean \"mine\"?");
  ASSERT_TRUE(kernels.add(entry("theirs", "published")));
  pipeline.stages[1].kernel = "theirs";
  EXPECT_EQ(
      refusal(),
      "chain.json:3: error E0562: kernel theirs of two cannot be launched: family published has no binding\n"
      "   hint: its tiles are there to be planned and simulated: plan for a machine whose kernels are "
      "compiled");
}

TEST_F(BindingsTest, tensors_are_what_the_plan_says) {
  tensors["x"].type = ElementType::fp16;
  EXPECT_EQ(
      refusal(),
      "chain.json:3: error E0561: the tensor for buffer \"x\" of one is 8 x 16 of fp16, the plan's buffer is "
      "8 x 16 of bf16\n"
      "   hint: plan for the sizes and the type that the tensors have");
  tensors["x"].type = ElementType::bf16;
  tensors["x"].row_stride = 15;
  EXPECT_EQ(refusal(),
            "chain.json:3: error E0561: rows of 16 elements in buffer \"x\" are 15 elements apart\n"
            "   hint: let rows be at least as far apart as they are long");
  tensors.erase("x");
  EXPECT_EQ(refusal(),
            "chain.json:3: error E0561: there is no tensor for buffer \"x\" of one\n"
            "   hint: give a tensor for every buffer of the pipeline");
  pipeline.stages[0].operands[0].name = "b";
  EXPECT_EQ(refusal(),
            "chain.json:3: error E0561: one has no operand \"a\"\n"
            "   hint: name the operands as the kernel knows them");
}

TEST_F(BindingsTest, a_refusal_names_stage_field_and_way_out) {
  bindings.add("mine", [](BindRequest const& request) {
    return cannot_bind(request, 0, "the order", "it has one", "leave it row major");
  });
  EXPECT_EQ(refusal(),
            "chain.json:3: error E0560: the order of one cannot run in kernel mine: it has one\n"
            "   hint: leave it row major");
}

}  // namespace
}  // namespace tessera
