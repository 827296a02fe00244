// SPDX-License-Identifier: Apache-2.0
// tune, run and bench of gemm-all-reduce and the others: what is refused without a GPU, and what
// tessera-peers is asked for.
#include "cli/alone.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct Products : AloneInAFolder {
  void put_companion(std::string const& more = "") const {
    put_beside("tessera-peers", "for word; do echo \"$word\"; done >words\n" + more);
  }
  void expect_refused(std::string const& words, std::string const& text, int exit = 2) const {
    expect_refused_by("run", words, text, exit);
  }
  void expect_refused_by(std::string const& verb, std::string const& words, std::string const& text,
                         int exit = 2) const {
    auto const said = says(verb + " " + words);
    EXPECT_EQ(said.exit, exit) << words;
    EXPECT_THAT(said.err, HasSubstr(text)) << words;
    EXPECT_FALSE(std::filesystem::exists(folder / "words")) << words;
  }
};

TEST_F(Products, AskForWhatWasSaid) {
  put_companion("exit 1\n");
  auto said = says(
      "run gemm-reduce-scatter --rows 2048 --columns 8192 --depth 22016 --gpus 4 --dtype fp16 --quick "
      "--without-peer-access --record out.json");
  EXPECT_EQ(said.exit, 1) << said.err;
  EXPECT_EQ(read_text(folder / "words"),
            "run\ngemm-reduce-scatter\n2048\n8192\n22016\nfp16\n4\nquick\napart\n\nout.json\n");
  put_companion();
  said = says("run all-gather-gemm --rows 8 --columns 1024 --depth 512");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "run\nall-gather-gemm\n8\n1024\n512\nbf16\n2\nfull\nreach\n\n");
  said = says("tune gemm-all-reduce --rows 8 --columns 1024 --depth 512 --cache c.json --gpus 4 --quick");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"),
            "tune\ngemm-all-reduce\n8\n1024\n512\nbf16\n4\nquick\nreach\nc.json\n");
  said = says("bench gemm-reduce-scatter --rows 8 --columns 1024 --depth 512 --dtype fp16 -o out.json");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"),
            "bench\ngemm-reduce-scatter\n8\n1024\n512\nfp16\n2\nfull\nreach\n-\nout.json\n");
}

TEST_F(Products, AreRefusedWithoutAGpu) {
  put_companion();
  std::string const sizes = " --rows 8 --columns 1024 --depth 512";
  expect_refused("gemm-all-reduce", "error E0906: gemm-all-reduce needs --rows");
  expect_refused("gemm-all-reduce --rows 8 --columns 8", "error E0906: gemm-all-reduce needs --depth");
  expect_refused("gemm-all-reduce --rows 8 --columns 8 --depth 8",
                 "error E0581: depth 8 is no multiple of 16: of 8 elements for each of 2 GPUs", 1);
  expect_refused("all-gather-gemm --rows 8 --columns 24 --depth 8 --gpus 4",
                 "error E0581: columns 24 is no multiple of 32: of 8 elements for each of 4 GPUs", 1);
  expect_refused("gemm-all-reduce --dtype fp8" + sizes,
                 "error E0906: --dtype: no product on several GPUs is of fp8");
  expect_refused("gemm-all-reduce --tokens 1" + sizes, "error E0906: --tokens is not for gemm-all-reduce");
  expect_refused("gemm-all-reduce --planned" + sizes, "error E0906: --planned is not for gemm-all-reduce");
  expect_refused("gemm-all-reduce --box 8x8x8" + sizes, "error E0906: --box is for lattice-boltzmann");
  expect_refused("gemm-all-reduce --record nowhere/out.json" + sizes, "error E0902", 3);
  expect_refused("gemm-all-reduce --gpus 1" + sizes, "--gpus");
  expect_refused_by("tune", "gemm-all-reduce --for steady" + sizes,
                    "error E0906: --for is not for gemm-all-reduce");
  expect_refused_by("tune", "gemm-all-reduce --verbose" + sizes,
                    "error E0906: --verbose is not for gemm-all-reduce");
  expect_refused_by("tune", "gemm-all-reduce --tp 2" + sizes, "error E0906: --tp is not for gemm-all-reduce");
  expect_refused_by("tune", "llama-65b --rows 8", "error E0906: --rows is for products on several GPUs");
  expect_refused_by("tune", "llama-65b --gpus 2", "error E0906: --gpus is for products on several GPUs");
  expect_refused_by("bench", "all-gather-gemm --rows 8", "error E0906: all-gather-gemm needs --columns");
  expect_refused_by("bench", "gemm-all-reduce --gpus 1" + sizes, "--gpus");
  expect_refused("llama-65b --rows 8", "error E0906: --rows is for products on several GPUs");
  expect_refused("llama-65b --gpus 2",
                 "error E0906: --gpus is for lattice-boltzmann and products on several");
}

/// Sizes are looked at before a GPU is asked for.
TEST_F(Products, TheCompanionSaysNoWithTheSameNumber) {
  auto const real = std::filesystem::path(TESSERA_BINARY).parent_path() / "tessera-peers";
  if (!std::filesystem::exists(real)) GTEST_SKIP() << "tessera-peers was not built";
  auto const asked = [&](std::string const& words) {
    int const status =
        std::system(("cd " + folder.path() + " && '" + real.string() + "' " + words + " >out 2>err").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  };
  EXPECT_EQ(asked("run gemm-all-reduce 8 8 8 bf16 2 full reach -"), 1);
  EXPECT_THAT(read_text(folder / "err"), HasSubstr("error E0581: depth 8 is no multiple of 16"));
  EXPECT_EQ(asked("run gemm-all-gather 8 8 8 bf16 2 full reach -"), 2);
  EXPECT_EQ(asked("run gemm-all-reduce 8 8 8"), 2);
  EXPECT_EQ(asked("look gemm-all-reduce 8 8 8 bf16 2 full reach -"), 2);
}

TEST_F(Products, SayWhatIsMissing) {
  auto const said = says("run gemm-all-reduce --rows 8 --columns 1024 --depth 512");
  EXPECT_THAT(said.err, HasSubstr("error E0936: tessera run gemm-all-reduce needs tessera-peers"));
}

}  // namespace
}  // namespace tessera
