// SPDX-License-Identifier: Apache-2.0
// What mlp() refuses, in exactly these words, and what it takes instead of a bad cache.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/mlp/cache_file.hpp"
#include "kernels/mlp/candidates.hpp"
#include "kernels/mlp/cublaslt.hpp"
#include "kernels/mlp/mlp.hpp"
#include "kernels/mlp/tune_key.hpp"
#include "mlp_gpu/operands.hpp"

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

TEST(Refusals, CandidatesThatAreNone) {
  for (char const* name :
       {"", "x", "skinny", "skinny n8 c1", "a > b", "cublaslt(tile 1 split 1 #zz) > cublaslt(#1)",
        "128x128x64_2x1 band 1 blocks 0", "128x128x64_2x1 band -1 blocks 0 > 128x128x64_2x1 band 1 blocks 0",
        "128x128x64_2x1 band 1 blocks 0 > 128x128x64_2x1 band 1 blocks 0; sometimes"})
    EXPECT_THAT(said(find_candidate(small, name)), HasSubstr("E0532")) << name;
}

TEST(Names, AreReadBack) {
  auto const offered = cublaslt_halves(small, Which::first).value();
  for (auto const& half : offered) {
    auto const read = lt_algorithm(half.name);
    ASSERT_TRUE(read) << half.name;
    EXPECT_EQ(lt_name(*read), half.name);
    EXPECT_TRUE(find_half(small, Which::first, half.name));
  }
  for (auto const& half : gemm_sm90_halves(small, Which::second))
    EXPECT_TRUE(find_half(small, Which::second, half.name)) << half.name;
  for (int const tokens : {1, 16, 64, 128}) {
    Shape shape = small;
    shape.tokens = tokens;
    auto const singles = single_launches(shape);
    EXPECT_FALSE(singles.empty()) << tokens;
    for (auto const& one : singles) {
      auto const read = find_candidate(shape, one.name);
      ASSERT_TRUE(read) << said(read);
      EXPECT_EQ(read->name, one.name);
    }
  }
  // A kernel for sixteen tokens does five as well, but not seventeen.
  auto const sixteen = single_launches({16, 512, 256}).front().name;
  EXPECT_TRUE(find_candidate({5, 512, 256}, sixteen));
  EXPECT_FALSE(find_candidate({17, 512, 256}, sixteen));
}

/// A file in a folder of its own, removed at the end.
class CacheFile : public testing::Test {
 protected:
  CacheFile() { std::filesystem::create_directories(folder); }
  ~CacheFile() override { std::filesystem::remove_all(folder); }
  std::string write(std::string const& text) const {
    auto const path = (folder / "tune.json").string();
    std::ofstream(path) << text;
    return path;
  }
  std::filesystem::path const folder = std::filesystem::temp_directory_path() / "tessera_mlp_refusals";
};

TEST_F(CacheFile, CorruptedIsSaidAndPassedOver) {
  MlpOptions options;
  options.cache_file = write("{\"schema\": \"tessera.tune/1\",\n \"entries\": [7]}");
  auto const block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_THAT(to_text(block->notes()),
              HasSubstr("tune.json:2: error E0525: an entry must be an object, not 7"));
}

TEST_F(CacheFile, ForeignIsSaidAndPassedOver) {
  auto key = tune_key(small).value();
  key.driver = "1.2.3";
  ASSERT_TRUE(add_to_cache((folder / "tune.json").string(), {{{key, {{8, "skinny", 1, 1, "", 1, 1, ""}}}}}));
  MlpOptions options;
  options.cache_file = (folder / "tune.json").string();
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_THAT(to_text(block->notes()), HasSubstr("warning E0529"));
  EXPECT_THAT(to_text(block->notes()), HasSubstr("driver: tuned on \"1.2.3\""));
  EXPECT_EQ(block->choice(8).value(), default_candidate({8, 512, 256}).value().name);
}

TEST_F(CacheFile, AnUnknownCandidateFallsBack) {
  auto const key = tune_key(small).value();
  TuneCache const cache{{{key, {{8, "a kernel of tomorrow", 1, 1, "", 1, 1, ""}}}}};
  MlpOptions options;
  options.cache = &cache;
  auto block = Mlp::make(small, options);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->choice(8).value(), default_candidate({8, 512, 256}).value().name);
}

TEST_F(CacheFile, MergesAndIsNotReplacedWhenItIsNoCache) {
  auto const path = (folder / "deeper/tune.json").string();
  auto const key = tune_key(small).value();
  ASSERT_TRUE(add_to_cache(path, {{{key, {{8, "a", 1, 1, "b", 2, 2, ""}}}}}));
  ASSERT_TRUE(add_to_cache(path, {{{key, {{4, "c", 1, 1, "d", 2, 2, ""}}}}}));
  auto const both = read_cache(path);
  ASSERT_TRUE(both);
  ASSERT_EQ(both->entries.size(), 1u);
  EXPECT_EQ(both->entries.front().sizes.size(), 2u);
  auto const other = write("not JSON");
  EXPECT_THAT(said(add_to_cache(other, *both)), HasSubstr("E0523"));
  EXPECT_THAT(said(read_cache(folder.string())), HasSubstr("E0531"));
}

}  // namespace
}  // namespace tessera::mlp
