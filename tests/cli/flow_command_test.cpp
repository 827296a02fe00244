// SPDX-License-Identifier: Apache-2.0
// run and bench lattice-boltzmann: what is refused without a GPU, and what tessera-flow is asked for.
#include "cli/alone.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct Flow : AloneInAFolder {
  void put_companion(std::string const& more = "") const {
    put_beside("tessera-flow", "for word; do echo \"$word\"; done >words\n" + more);
  }
  void expect_refused(std::string const& words, std::string const& text) const {
    auto const said = says("run lattice-boltzmann " + words);
    // What cannot be computed is a no (1), what cannot be written is of the machine (3); the rest is usage
    // (2).
    bool const no = text.find("E0568") != std::string::npos || text.find("E0569") != std::string::npos;
    int const exit = no ? 1 : text.find("E0902") != std::string::npos ? 3 : 2;
    EXPECT_EQ(said.exit, exit) << words;
    EXPECT_THAT(said.err, HasSubstr(text)) << words;
    EXPECT_FALSE(std::filesystem::exists(folder / "words")) << words;
  }
};

TEST_F(Flow, AsksForWhatWasSaid) {
  put_companion("exit 1\n");
  auto said = says(
      "run lattice-boltzmann --box 64x32x16 --steps 50 --flow cavity --speed 0.1 --tau 0.7 "
      "--variant in_place --vtk out.vtk");
  EXPECT_EQ(said.exit, 1) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "64\n32\n16\n50\ncavity\n0.1\n0.7\nin_place\n1\nout.vtk\n");
  put_companion();
  said = says("run lattice-boltzmann");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "128\n128\n128\n1000\nvortices\n0.05\n0.6\nchosen\n1\n");
  said = says("run lattice-boltzmann --gpus 2");
  EXPECT_EQ(read_text(folder / "words"), "128\n128\n128\n1000\nvortices\n0.05\n0.6\nchosen\n2\n");
}

TEST_F(Flow, RefusesWithoutAGpu) {
  put_companion();
  expect_refused("--box 64x64", "error E0908: --box: \"64x64\" is not the size of a box");
  expect_refused("--box 64x64x64x", "is not the size of a box");
  expect_refused("--box 0x64x64", "error E0568: a box of 0x64x64 cells");
  expect_refused("--box 4096x4096x4096", "error E0568: a box of 68719476736 cells");
  expect_refused("--tau 0.5", "error E0568: a relaxation time tau of 0.5");
  expect_refused("--tau 1e308",
                 "error E0568: a relaxation time tau of 1e+308\n   hint: ask for less than 1000000: ");
  expect_refused("--speed 0.2", "error E0568: vortices that turn at 0.2 cells a step, Mach 0.346");
  expect_refused("--speed 0.2 --flow channel", "error E0568: a channel that flows at 0.2 cells a step");
  expect_refused("--speed 0.2 --flow cavity", "error E0568: a wall that moves at 0.2 cells a step");
  expect_refused("--speed 0.1 --box 256x64x8", "error E0568: a flow that starts at 0.");
  expect_refused("--vtk ''", "--vtk: needs a value, not an empty one");
  expect_refused("--vtk nowhere/out.vtk", "error E0902");
  expect_refused("--variant fastest", "error E0908: --variant: no variant has the name fastest");
  expect_refused("--gpus 2 --variant in_place", "error E0906: --variant is for one GPU, and --gpus says 2");
  expect_refused("--gpus 9 --box 64x64x8", "error E0569: 8 planes along z for 9 GPUs");
  expect_refused("--gpus 17", "--gpus");
  expect_refused("--tokens 1", "error E0906: --tokens is not for lattice-boltzmann");
  expect_refused("--planned", "error E0906: --planned is not for lattice-boltzmann");
  auto const other = says("run llama-65b --steps 3");
  EXPECT_NE(other.exit, 0);
  EXPECT_THAT(other.err, HasSubstr("error E0906: --steps is for lattice-boltzmann"));
}

TEST_F(Flow, PredictsWithoutAGpu) {
  auto const said = says("run lattice-boltzmann --box 32x32x32 --predict --machine h100 -o out.json");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_THAT(said.out, testing::AllOf(HasSubstr("two_lattices"), HasSubstr("chip_cooperative")));
  EXPECT_THAT(read_text(folder / "out.json"), HasSubstr("nothing fitted"));
  auto const one = says("run lattice-boltzmann --box 32x32x32 --predict --variant barrier");
  EXPECT_THAT(one.out, testing::Not(HasSubstr("two_lattices")));
  EXPECT_THAT(says("run lattice-boltzmann --box 32x32x32 --predict --variant chip_clusters --json").out,
              HasSubstr("blocks in clusters of "));
  EXPECT_THAT(says("run lattice-boltzmann --box 96x96x96 --predict --variant chip_clusters --json").out,
              HasSubstr("884736 cells do not fit on the 132 SMs that clusters find"));
  expect_refused("--predict --steps 3", "error E0906: --steps is not for --predict");
  EXPECT_THAT(one.out, testing::Not(HasSubstr("slabs")));
  expect_refused("--predict --box 0x1x1", "error E0568");
  expect_refused("--machine h100", "error E0906: --machine is not for lattice-boltzmann");
  expect_refused("-o out.json", "error E0906: --output is for generating tokens");
  EXPECT_THAT(says("run lattice-boltzmann --predict --machine v100").err, HasSubstr("error E0303"));
}

TEST_F(Flow, PredictsSlabsOfSeveralGpus) {
  auto const two = says("run lattice-boltzmann --box 32x32x32 --predict --gpus 2 -o out.json");
  EXPECT_EQ(two.exit, 0) << two.err;
  EXPECT_THAT(two.out, testing::AllOf(HasSubstr("two_lattices"), HasSubstr("slabs")));
  EXPECT_THAT(read_text(folder / "out.json"), HasSubstr("2 GPUs with 16 planes each"));
  expect_refused("--predict --gpus 2 --variant barrier", "error E0906: --variant is for one GPU");
  expect_refused("--predict --gpus 3 --box 8x8x2", "error E0569");
  // Two lattices are 163 GB, and the profile has 141.
  auto const large =
      says("run lattice-boltzmann --box 1024x1024x1024 --predict --variant two_lattices --json");
  EXPECT_THAT(large.out, HasSubstr("[\"two_lattices\", \"-\""));
  // It was measured alone.
  EXPECT_THAT(says("run lattice-boltzmann --predict --gpus 2 --machine h100").err,
              HasSubstr("error E0303: the profile h100 says nothing of a second GPU"));
}

/// The numbers of docs/reference/cli.md, whoever finds it out: here, or tessera-flow, which looks at the flow
/// before it asks for a GPU.
TEST_F(Flow, TheCompanionSaysNoWithTheSameNumber) {
  auto const real = std::filesystem::path(TESSERA_BINARY).parent_path() / "tessera-flow";
  if (!std::filesystem::exists(real)) GTEST_SKIP() << "tessera-flow was not built";
  auto const asked = [&](std::string const& words) {
    int const status =
        std::system(("cd " + folder.path() + " && '" + real.string() + "' " + words + " >out 2>err").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  };
  EXPECT_EQ(asked("8 8 8 10 vortices 0.05 0.5 chosen 1"), 1);
  EXPECT_THAT(read_text(folder / "err"), HasSubstr("error E0568: a relaxation time tau of 0.5"));
  EXPECT_EQ(asked("8 8 8"), 2);
}

TEST_F(Flow, IsMeasured) {
  put_beside("bench_lattice_boltzmann", "for word; do echo \"$word\"; done >words\n");
  auto said = says("bench lattice-boltzmann");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "-\n-\nflows\nall\n");
  said = says("bench lattice-boltzmann --box 64x64x64,8x9x10 --variant trips -o out.json");
  EXPECT_EQ(said.exit, 0) << said.err;
  EXPECT_EQ(read_text(folder / "words"), "out.json\n-\nflows\ntrips\n64x64x64\n8x9x10\n");
  std::filesystem::remove(folder / "words");
  EXPECT_THAT(says("bench lattice-boltzmann --box 64x64x64,8x9").err,
              HasSubstr("error E0908: --box: \"8x9\" is not the size of a box"));
  EXPECT_THAT(says("bench lattice-boltzmann --box 0x8x8").err, HasSubstr("error E0568"));
  EXPECT_THAT(says("bench lattice-boltzmann --variant fastest").err,
              HasSubstr("error E0908: --variant: no variant has the name fastest"));
  EXPECT_THAT(says("bench lattice-boltzmann -o nowhere/out.json").err, HasSubstr("error E0902"));
  EXPECT_FALSE(std::filesystem::exists(folder / "words"));
}

TEST_F(Flow, SaysWhatIsMissing) {
  auto const said = says("run lattice-boltzmann");
  EXPECT_THAT(said.err, HasSubstr("error E0936: tessera run lattice-boltzmann needs tessera-flow"));
  EXPECT_THAT(says("bench lattice-boltzmann").err,
              HasSubstr("error E0936: tessera bench lattice-boltzmann needs bench_lattice_boltzmann"));
}

}  // namespace
}  // namespace tessera
