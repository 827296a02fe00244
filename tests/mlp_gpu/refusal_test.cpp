// SPDX-License-Identifier: Apache-2.0
// What mlp() refuses, in exactly these words, and what it takes instead of a bad cache.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "kernels/bindings/families.hpp"
#include "kernels/cublaslt/gemm.hpp"
#include "kernels/mlp/mlp.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"
#include "tessera/tune/cache_file.hpp"
#include "tessera/tune/key.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera::mlp {
namespace {

using testing::HasSubstr;

constexpr Shape small{64, 512, 256, Form::gelu, ElementType::bf16};

template <class T>
std::string said(Expected<T> const& result) {
  return result ? "accepted" : to_text(result.error());
}

TEST(Refusals, SizesThatNoKernelCanDo) {
  for (Shape const shape : {Shape{0, 512, 256}, Shape{1, 510, 256}, Shape{1, 512, 4}, Shape{1, -8, 256}})
    EXPECT_THAT(said(Mlp::make(shape)), HasSubstr("E0530")) << shape.model;
  EXPECT_EQ(said(Mlp::make({1, 510, 256})),
            "error E0530: an MLP of 1 tokens, 510 x 256 is not for these kernels\n"
            "   tokens are from 1 to 1048576; model and hidden sizes are multiples of 8 up to 1048576\n"
            "   hint: pad the weights with zeros to a multiple of 8");
}

TEST(Refusals, Arguments) {
  Stream const stream;
  Operands const operands(small, 1, stream);
  auto block = Mlp::make(small);
  ASSERT_TRUE(block) << said(block);
  auto const launch = [&](void const* x, int tokens) {
    return said(block->launch(x, operands.w1, operands.w2, operands.y, tokens, stream));
  };
  EXPECT_EQ(launch(operands.x, 65),
            "error E0536: 65 tokens, but this Mlp was made for 1 to 64\n"
            "   hint: make it for the largest number of tokens");
  EXPECT_THAT(launch(operands.x, 0), HasSubstr("E0536"));
  EXPECT_THAT(launch(nullptr, 1), HasSubstr("E0536"));
  EXPECT_THAT(launch(static_cast<char const*>(operands.x) + 8, 1), HasSubstr("E0536"));
  EXPECT_EQ(launch(operands.x, 64), "accepted");
}

TEST(Refusals, TooLittleIsLent) {
  Stream const stream;
  Operands const operands(small, 1, stream);
  MlpOptions options;
  options.lends_scratch = true;
  options.only = default_plan(small).value();
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block) << said(block);
  auto const bytes = block->scratch_bytes(64).value();
  ASSERT_GE(bytes, 2u * 64 * 256);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, bytes + 256), cudaSuccess);
  auto const launch = [&](LentScratch scratch) {
    return said(block->launch(operands.x, operands.w1, operands.w2, operands.y, 64, stream, scratch));
  };
  EXPECT_THAT(launch({}), HasSubstr("error E0536: 0 bytes at 0x0 are lent, but 64 tokens take "));
  EXPECT_THAT(launch({memory, bytes - 1}), HasSubstr("ask for the bytes in the same stream"));
  EXPECT_THAT(launch({static_cast<char*>(memory) + 16, bytes}), HasSubstr("E0536"));
  EXPECT_EQ(launch({memory, bytes}), "accepted");
  EXPECT_THAT(said(block->scratch_bytes(65)), HasSubstr("E0536"));
  EXPECT_EQ(Mlp::make(small).value().scratch_bytes(64).value(), 0u);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cudaFree(memory);
}

TEST(Algorithms, AreReadBack) {
  cublaslt::LtProblem const problem{64, 256, 512, gpu::ElementType::bf16, true};
  auto const gemm = cublaslt::LtGemm::make(problem);
  ASSERT_TRUE(gemm) << said(gemm);
  for (auto const& algorithm : (*gemm)->algorithms()) {
    auto const name = cublaslt::lt_name(algorithm);
    auto const read = cublaslt::lt_algorithm(name);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(cublaslt::lt_name(*read), name);
    EXPECT_TRUE((*gemm)->supports(*read)) << name;
  }
}

TEST(Refusals, VariantsThatAreNone) {
  for (char const* word : {"x", "cublaslt(tile 1 split 1 #zz)", "n8 s1"}) {
    auto plan = default_plan(small).value();
    plan.stages.front().variant = word;
    MlpOptions options;
    options.only = plan;
    auto block = Mlp::make(small, options);
    ASSERT_TRUE(block) << said(block);
    Stream const stream;
    Operands const operands(small, 1, stream);
    EXPECT_THAT(said(block->launch(operands.x, operands.w1, operands.w2, operands.y, 64, stream)),
                HasSubstr("error E0560: variant of h cannot run in kernel cublaslt"));
  }
}

/// A file in a folder of its own, removed at the end.
class CacheFile : public testing::Test {
 protected:
  CacheFile() { std::filesystem::create_directories(folder); }
  ~CacheFile() override { std::filesystem::remove_all(folder); }
  std::string path() const { return (folder / "tune.json").string(); }
  TuneEntry entry(int tokens, Plan plan) const {
    auto shape = small;
    shape.tokens = tokens;
    TuneEntry result;
    result.key = tune_key(graph_of(shape), shipped_bindings()).value();
    result.plan = std::move(plan);
    return result;
  }
  std::filesystem::path const folder = std::filesystem::temp_directory_path() / "tessera_mlp_refusals";
};

TEST_F(CacheFile, CorruptedIsSaidAndPassedOver) {
  std::ofstream(path()) << "{\"schema\": \"tessera.tune/2\",\n \"entries\": [7]}";
  MlpOptions options;
  options.cache_file = path();
  auto const block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_THAT(to_text(block->notes()),
              HasSubstr("tune.json:2: error E0525: an entry must be an object, not 7"));
}

TEST_F(CacheFile, ForeignIsSaidAndPassedOver) {
  auto foreign = entry(64, some_plans(small)[3]);
  foreign.key.driver = "1.2.3";
  ASSERT_TRUE(add_to_cache(path(), {{foreign}}));
  MlpOptions options;
  options.cache_file = path();
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_THAT(to_text(block->notes()), HasSubstr("warning E0529"));
  EXPECT_THAT(to_text(block->notes()), HasSubstr("driver: tuned on \"1.2.3\""));
  EXPECT_EQ(plan_name(block->choice(64).value()), plan_name(default_plan(small).value()));
}

TEST_F(CacheFile, APlanIsReadBackAndTakenForOtherTokens) {
  auto const plan = some_plans(small)[3];
  ASSERT_TRUE(add_to_cache(path(), {{entry(64, plan)}}));
  MlpOptions options;
  options.cache_file = path();
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block) << said(block);
  EXPECT_EQ(to_text(block->notes()), "");
  for (int const tokens : {64, 40})
    EXPECT_EQ(plan_name(block->choice(tokens).value()), plan_name(plan)) << tokens;
}

TEST_F(CacheFile, AKernelOfTomorrowFallsBack) {
  auto plan = some_plans(small)[3];
  plan.pipeline.stages.front().kernel = "a kernel of tomorrow";
  TuneCache const cache{{entry(64, plan)}};
  MlpOptions options;
  options.cache = &cache;
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_EQ(plan_name(block->choice(64).value()), plan_name(default_plan(small).value()));
}

}  // namespace
}  // namespace tessera::mlp
