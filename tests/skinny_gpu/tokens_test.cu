// SPDX-License-Identifier: Apache-2.0
// The right numbers for every count of tokens, both forms, both types, every configuration of the tuner.
#include <cmath>

#include "memory.hpp"

namespace tessera::skinny_sm90 {
namespace {

using mlp::ElementType;
using mlp::Form;

struct Case {
  int model;
  int hidden;
  Form form;
  ElementType type;
};

/// Launches y = mlp(x), then z = mlp(x) again into other memory, the second programmatically, from poison.
/// The worse error; -1 if the device cannot run it; NaN where rows behind the tokens were touched.
double run(Memory& memory, int tokens, Config const& config) {
  mlp::Shape shape = memory.shape;
  shape.tokens = tokens;
  Plan plan;
  // A device may hold fewer blocks in clusters than configs() reckons with.
  auto const prepared = prepare(shape, config, &plan);
  if (prepared == cudaErrorNotSupported) return -1;
  ok(prepared);
  for (auto* array : {&memory.h, &memory.y, &memory.z}) poison(array->get(), array->size(), nullptr);
  ok(launch(plan, memory.call(memory.buffers(memory.x, memory.y), false), nullptr));
  ok(launch(plan, memory.call(memory.buffers(memory.x, memory.z), true), nullptr));
  double worst = 0;
  std::size_t const count = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(shape.model);
  for (auto* array : {&memory.y, &memory.z}) {
    double const error = relative_error(array->get(), memory.y_reference.get(), count, shape.type, nullptr);
    if (not_poisoned(array->get() + count, array->size() - count, nullptr) != 0) return NAN;
    worst = std::isnan(error) ? NAN : std::fmax(worst, error);
    if (std::isnan(worst)) break;
  }
  EXPECT_EQ(memory.record().state, 0u) << explain(memory.record(), plan);
  return worst;
}

/// A rounding to bf16 is off by up to 2^-8 of an element. Over a thousand elements that is 1.65e-3 in the
/// mean square; over fewer the largest decide.
double allowed_for(Case const& one, int tokens) {
  return tokens * one.model < 1000 ? 1.0 / 256 : allowed_error;
}

void every_token_count(Case const& one, int step) {
  double worst = 0;
  int runs = 0;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Memory memory({most_tokens, one.model, one.hidden, one.form, one.type}, seed);
    for (int tokens = 1; tokens <= most_tokens; tokens += tokens == 1 ? step - (step > 1) : step) {
      mlp::Shape shape = memory.shape;
      shape.tokens = tokens;
      auto const list = configs(shape);
      ASSERT_FALSE(list.empty());
      int const before = runs;
      for (Config const& config : list) {
        double const error = run(memory, tokens, config);
        if (error < 0) continue;
        ++runs;
        double const allowed = allowed_for(one, tokens);
        EXPECT_LE(error, allowed) << tokens << " tokens, seed " << seed << ", " << to_string(config);
        if (!(error <= allowed)) return;
        worst = std::fmax(worst, error);
      }
      ASSERT_GT(runs, before) << "no configuration for " << tokens << " tokens runs on this device";
    }
  }
  std::printf("  %d pairs of launches, worst relative error %.2e\n", runs, worst);
}

TEST(SkinnyTokens, GeluBf16) { every_token_count({1032, 1368, Form::gelu, ElementType::bf16}, 1); }
TEST(SkinnyTokens, GeluFp16) { every_token_count({1536, 1024, Form::gelu, ElementType::fp16}, 1); }
TEST(SkinnyTokens, SwigluBf16) { every_token_count({1024, 2752, Form::swiglu, ElementType::bf16}, 1); }
TEST(SkinnyTokens, SwigluFp16) { every_token_count({2056, 712, Form::swiglu, ElementType::fp16}, 1); }
TEST(SkinnyTokens, SmallerThanTheGpu) { every_token_count({8, 8, Form::swiglu, ElementType::bf16}, 5); }
TEST(SkinnyTokens, ManyWaves) { every_token_count({1024, 28672, Form::swiglu, ElementType::bf16}, 21); }
TEST(SkinnyTokens, Gpt3) { every_token_count({12288, 6144, Form::gelu, ElementType::bf16}, 16); }
TEST(SkinnyTokens, Llama) { every_token_count({8192, 2752, Form::swiglu, ElementType::fp16}, 16); }

}  // namespace
}  // namespace tessera::skinny_sm90
