// SPDX-License-Identifier: Apache-2.0
// run resnet-50: what is refused without a GPU, and what tessera-network is asked for.
#include "cli/alone.hpp"
#include "support/safetensors_writer.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct NetworkCommand : AloneInAFolder {
  void put_companion(std::string const& more = "") const {
    put_beside("tessera-network", "for word; do echo \"$word\"; done >words\n" + more);
  }
  void expect_refused(std::string const& words, int exit, std::string const& text) const {
    auto const said = says("run " + words);
    EXPECT_EQ(said.exit, exit) << words;
    EXPECT_THAT(said.err, HasSubstr(text)) << words;
    EXPECT_FALSE(std::filesystem::exists(folder / "words")) << words;
  }
};

TEST_F(NetworkCommand, AsksForWhatWasSaid) {
  put_companion("exit 1\n");
  auto said = says(
      "run resnet-38 --images 1,4 --dtype bf16 --edge 28 --seed 3 --tune --check -o record.json --commit "
      "abc");
  EXPECT_EQ(said.exit, 1) << said.err;
  EXPECT_EQ(
      read_text(folder / "words"),
      "resnet-38\n1,4\n--dtype\nbf16\n--edge\n28\n--seed\n3\n--output\nrecord.json\n--commit\nabc\n--tune\n"
      "--check\n--command\ntessera run resnet-38 --images 1,4 --dtype bf16 --edge 28 --seed 3 --tune "
      "--check\n");
  put_companion();
  said = says("run resnet-50");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "resnet-50\n1\n--dtype\nfp16\n--command\ntessera run resnet-50\n");
}

TEST_F(NetworkCommand, RefusesWithoutAGpu) {
  put_companion();
  expect_refused(
      "vgg-19 --edge 4", 1,
      "error E0573: 2x2 pixels of images of 1x1\n   layer 10 of vgg-19, pool3\n   hint: ask for larger "
      "images");
  expect_refused("resnet-50 --images 1025", 1, "error E0573: a network for 1025 images");
  expect_refused("resnet-50 --images 99999", 1, "error E0573: a network for 1025 images");
  expect_refused("resnet-50 --images 0", 2, "error E0909: --images: \"0\"");
  expect_refused("resnet-50 --edge 0", 2, "--edge");
  expect_refused("resnet-50 --dtype fp8", 2, "error E0917: --dtype: networks are not computed in fp8");
  expect_refused("resnet-50 --planned", 2, "error E0906: --planned is not for resnet-50 as a whole");
  expect_refused("resnet-50 --tokens 1", 2, "error E0906: --tokens is not for resnet-50 as a whole");
  expect_refused("resnet-50 --prompt-ids 1", 2, "error E0906: --prompt-ids is for generating tokens");
  expect_refused("resnet-50 -o nowhere/record.json", 3, "error E0902");
  expect_refused("vgg-19 --layer 56x56x64 --check", 2,
                 "error E0906: --check is for networks of convolutions");
  expect_refused("llama-65b --edge 3", 2, "error E0906: --edge is for networks of convolutions");
  expect_refused("lattice-boltzmann --tune", 2, "error E0906: --tune is for networks of convolutions");
}

TEST_F(NetworkCommand, WeightsAreLookedAtFirst) {
  put_companion();
  expect_refused("resnet-50 --weights nowhere", 3, "error E0901: cannot read nowhere");
  support::write_bytes(
      folder / "model.safetensors",
      support::safetensors_of({support::counting_tensor("conv1.weight", "F32", {64, 3, 7, 7}, 4)}));
  expect_refused(
      "resnet-50 --weights .", 1,
      ".: error E0572: 266 of 267 tensors are missing: bn1.weight, bn1.bias, bn1.running_mean and 263 "
      "more\n   hint: see that the weights are those of resnet-50");
}

TEST_F(NetworkCommand, SaysWhatIsMissing) {
  EXPECT_THAT(says("run resnet-38").err,
              HasSubstr("error E0936: tessera run resnet-38 needs tessera-network, which is not beside"));
}

TEST_F(NetworkCommand, PredictsWithoutAGpu) {
  auto const said = says("run resnet-38 --images 1,16 --predict");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_THAT(said.out, testing::AllOf(testing::StartsWith("resnet-38 on NVIDIA H"),
                                       HasSubstr("by cuDNN alone"), HasSubstr("\n  Microseconds.\n")));
  EXPECT_THAT(said.out, HasSubstr("layers 0 to 31 in launches of th"));
  auto const json = says("run vgg-19 --predict --json");
  EXPECT_EQ(json.exit, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("tessera.study/1"));
}

TEST_F(NetworkCommand, RefusesToPredictWhatItDoesNotKnow) {
  for (auto const& [options, message] :
       {std::pair{"--tune", "error E0906: --tune is not for --predict, which runs nothing"},
        {"--seed 3", "error E0906: --seed is not for --predict, which runs nothing"},
        {"--edge 64", "error E0573: resnet-38 has layers of which no time by cuDNN is known"}}) {
    auto const said = says(std::string("run resnet-38 --predict ") + options);
    EXPECT_NE(said.exit, 0) << options;
    EXPECT_THAT(said.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace tessera
