// SPDX-License-Identifier: Apache-2.0
// Chains of MLPs with RMSNorm before and a residual behind each, against plain arithmetic.
#include <cstring>

#include "few_tokens_gpu/chain_problem.hpp"

namespace tessera::few_tokens {
namespace {

float from_bf16(unsigned short bits) {
  unsigned const wide = static_cast<unsigned>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// y of one MLP with what is around it, of x as it lies in device memory. In fp32, but for h.
std::vector<float> reference(mlp::Shape const& shape, void const* x, MlpWeights const& weights,
                             std::vector<unsigned short> const& x_host, MlpSurroundings const& around) {
  auto const tokens = static_cast<std::size_t>(shape.tokens), model = static_cast<std::size_t>(shape.model);
  bool const gated = shape.form == Form::swiglu;
  int const wide = shape.hidden * (gated ? 2 : 1);
  DeviceBuffer<float> sums(size(shape.tokens, wide)), y(tokens * model);
  Numbers h(size(shape.tokens, shape.hidden));
  bench::reference_gemm(x, weights.w1, sums.get(), shape.tokens, wide, shape.model, shape.type, nullptr);
  auto scaled = sums.download();
  for (std::size_t t = 0; t < tokens && around.norm_epsilon > 0; ++t) {
    double squares = 0;
    for (std::size_t k = 0; k < model; ++k) squares += std::pow(from_bf16(x_host[t * model + k]), 2);
    auto const scale =
        static_cast<float>(1 / std::sqrt(squares / static_cast<double>(model) + double(around.norm_epsilon)));
    for (std::size_t f = 0; f < static_cast<std::size_t>(wide); ++f)
      scaled[t * static_cast<std::size_t>(wide) + f] *= scale;
  }
  ok(cudaMemcpy(sums.get(), scaled.data(), scaled.size() * sizeof(float), cudaMemcpyHostToDevice));
  bench::reference_activation(sums.get(),
                              gated ? bench::ReferenceActivation::swiglu : bench::ReferenceActivation::gelu,
                              size(shape.tokens, shape.hidden), nullptr, h.get(), shape.type, nullptr);
  bench::reference_gemm(h.get(), weights.w2, y.get(), shape.tokens, shape.model, shape.hidden, shape.type,
                        nullptr);
  auto result = y.download();
  for (std::size_t i = 0; i < result.size() && around.residual; ++i) result[i] += from_bf16(x_host[i]);
  return result;
}

double relative_error(std::vector<unsigned short> const& found, std::vector<float> const& expected) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(double(from_bf16(found[i])) - double(expected[i]), 2);
    all += std::pow(double(expected[i]), 2);
  }
  return std::sqrt(off / all);
}

MlpChainConfig with(bool in_data, bool in_pairs = false) {
  MlpChainConfig config;
  config.tokens_in_data = in_data;
  config.cluster_blocks = in_pairs ? 2 : 1;
  return config;
}

/// The error of the last of so many MLPs.
double error_of(mlp::Shape const& shape, MlpSurroundings const& computed, MlpSurroundings const& meant,
                MlpChainConfig const& config, int launched) {
  Problem const problem(shape, 3);
  auto chain = MlpChain::make(shape, problem.buffers(), config, computed);
  EXPECT_TRUE(chain.has_value()) << to_text(chain.error());
  if (!chain) return 1;
  EXPECT_TRUE(chain->launch(nullptr, launched).has_value());
  auto const done = chain->finish();
  EXPECT_TRUE(done.has_value()) << to_text(done.error());
  EXPECT_TRUE(problem.kept_its_bounds());
  auto const buffers = problem.buffers();
  auto const* const x = buffers.x[launched % 2 == 0 ? 0 : 1];
  return relative_error(problem.result(launched),
                        reference(shape, x, buffers.weights[static_cast<std::size_t>(launched - 1) % 3],
                                  problem.last_input(launched), meant));
}

TEST(FewTokens, NormAndResidual) {
  for (auto const form : {Form::gelu, Form::swiglu})
    for (int const tokens : {1, 2, 7, 16, 20, 64})
      for (bool const residual : {false, true})
        for (int const launched : {1, 2, 5}) {
          mlp::Shape const shape{tokens, 1024, 768, form, ElementType::bf16};
          MlpSurroundings const around{1e-5f, residual};
          SCOPED_TRACE(std::to_string(tokens) + " tokens, " + std::to_string(launched) + " MLPs" +
                       (residual ? ", residual" : ""));
          for (bool const in_pairs : {false, tokens > 8})
            ASSERT_LE(error_of(shape, around, around, with(false, in_pairs), launched), allowed_error(shape));
        }
}
TEST(FewTokens, NormOfWords) {
  for (int const tokens : {1, 2})
    for (int const launched : {1, 2, 5}) {  // the first one reads no words
      mlp::Shape const shape{tokens, 1024, 768, Form::swiglu, ElementType::bf16};
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << launched << " MLPs");
      ASSERT_LE(error_of(shape, {1e-5f, false}, {1e-5f, false}, with(true), launched), allowed_error(shape));
    }
}
/// The errors above would show what is left out.
TEST(FewTokens, NormAndResidualMatter) {
  mlp::Shape const shape{3, 1024, 768, Form::swiglu, ElementType::bf16};
  EXPECT_GT(error_of(shape, {1.0f, true}, {1e-5f, true}, with(false), 2), 0.05);
  EXPECT_GT(error_of(shape, {1e-5f, false}, {1e-5f, true}, with(false), 2), 0.05);
}

}  // namespace
}  // namespace tessera::few_tokens
