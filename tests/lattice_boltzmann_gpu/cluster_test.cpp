// SPDX-License-Identifier: Apache-2.0
// Blocks in clusters of several shapes: bits of plain steps whatever is beside whom, with late warps too; a
// block that tells its neighbours in the cluster nothing.
#include "lattice_boltzmann_gpu/silent.hpp"

namespace tessera::lattice_boltzmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Options in_clusters(ChipCut const& cut) {
  Options options;
  options.variant = Variant::chip_clusters;
  options.cut = cut;
  return options;
}

TEST(LatticeBoltzmannClusters, OfAnyShapeHaveTheBitsOfPlainSteps) {
  struct Shape {
    int blocks[3], cluster[3];
  };
  // One cluster; clusters that meet themselves around the box; an axis of one block; odd blocks.
  Shape const shapes[] = {{{2, 2, 2}, {2, 2, 2}}, {{4, 2, 4}, {4, 2, 1}}, {{4, 3, 4}, {2, 1, 1}},
                          {{3, 4, 5}, {3, 2, 1}}, {{1, 2, 6}, {1, 2, 2}}, {{2, 4, 6}, {2, 2, 2}}};
  for (auto const& problem : {rough(29, 23, 31), open_box(25, 22, 19)})
    for (auto const& shape : shapes) {
      ChipCut cut{{problem.width, problem.height, problem.depth}, {}, {}};
      for (int a = 0; a < 3; ++a) cut.blocks[a] = shape.blocks[a], cut.cluster[a] = shape.cluster[a];
      if (!check_cut(problem, cut)) continue;  // blocks that are too large for the chip
      SCOPED_TRACE(testing::Message()
                   << to_string(problem) << " in " << cut.count() << " blocks, clusters of " << cut.cluster[0]
                   << "x" << cut.cluster[1] << "x" << cut.cluster[2]);
      for (unsigned const late : {0u, 3u}) {
        auto options = in_clusters(cut);
        options.disturbance.late = late;
        auto made = LatticeBoltzmann::make(problem, options);
        ASSERT_OK(made);
        ASSERT_OK(made->run(nullptr, 50));
        ASSERT_OK(made->run(nullptr, 51));
        ASSERT_OK(made->finish());
        EXPECT_EQ(other_bits(flow_on_device(*made), plain(problem, 101)), 0u) << "late: " << late;
      }
    }
}

TEST(LatticeBoltzmannClusters, ASilentBlockIsNamed) {
  expect_that_a_silent_block_is_named(
      rough(24, 24, 24), in_clusters({{24, 24, 24}, {2, 2, 2}, {2, 2, 2}}), [](LatticeBoltzmann const& flow) {
        return AllOf(HasSubstr("step_0 tile ("),
                     HasSubstr("waits for tile " + silent_place(flow.choice().cut) +
                               " of its cluster, which has told of 20 rims of this launch and of 21 was"));
      });
}

TEST(LatticeBoltzmannClusters, AreOfTheirVariantAlone) {
  auto const problem = open_box(24, 24, 24);
  auto options = in_clusters({{24, 24, 24}, {2, 2, 2}, {1, 1, 1}});
  auto const none = LatticeBoltzmann::make(problem, options);
  ASSERT_FALSE(none);
  EXPECT_THAT(to_text(none.error()), HasSubstr("E0569: a cut in clusters of 1 blocks for chip_clusters"));
  options.variant = Variant::chip_tokens;
  options.cut->cluster[0] = 2;
  auto const other = LatticeBoltzmann::make(problem, options);
  ASSERT_FALSE(other);
  EXPECT_THAT(to_text(other.error()), HasSubstr("E0569: a cut in clusters of 2 blocks for chip_tokens"));
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
