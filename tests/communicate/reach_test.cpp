// SPDX-License-Identifier: Apache-2.0
// Which GPUs are a group, and what is said of a rank that did not come.
#include "tessera/communicate/reach.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string refusal_of(std::vector<int> const& devices, int present, int lonely = -1) {
  auto const made =
      check_reach(devices, present, [&](int from, int to) { return from != lonely && to != lonely; });
  return made ? "" : to_text(made.error());
}

TEST(Reach, GpusThatReachEachOtherAreAGroup) {
  EXPECT_EQ(refusal_of({0}, 1), "");
  EXPECT_EQ(refusal_of({3, 1, 0}, 4), "");
  EXPECT_EQ(refusal_of({0, 1}, 4, 2), "");
}

TEST(Reach, OneThatIsNotReachedIsNamed) {
  EXPECT_EQ(refusal_of({0, 1, 3}, 4, 3),
            "error E0580: GPU 0 does not reach the memory of GPU 3\n"
            "   hint: take GPUs that NVLink or a PCIe switch joins (nvidia-smi topo -p2p r), or a "
            "collectives library between them");
}

TEST(Reach, DevicesThatAreNotThereOrTwiceOrTooManyAreRefused) {
  EXPECT_EQ(refusal_of({0, 2}, 2),
            "error E0580: a group with GPU 2, of 2 that are there\n"
            "   hint: name GPUs as nvidia-smi -L numbers them, less those that CUDA_VISIBLE_DEVICES hides");
  EXPECT_EQ(refusal_of({0, -1}, 2).substr(0, 33), "error E0580: a group with GPU -1,");
  EXPECT_EQ(refusal_of({1, 1}, 2),
            "error E0580: GPU 1 is twice in a group\n   hint: give each rank a GPU of its own");
  EXPECT_EQ(refusal_of({}, 2), "error E0580: a group of 0 GPUs\n   hint: name 1 to 16 GPUs of this host");
  EXPECT_EQ(refusal_of(std::vector<int>(17, 0), 2).substr(0, 31), "error E0580: a group of 17 GPUs");
}

TEST(Reach, AStallNamesRanksPartAndCount) {
  EXPECT_EQ(to_text(describe_stall({"gemm_all_reduce of 8 x 8192 x 8192 on 2 GPUs", 0, 1, "its partial sums",
                                    0, 86, 4, 5, 2.0})),
            "error E0582: gemm_all_reduce of 8 x 8192 x 8192 on 2 GPUs: rank 0 waits for rank 1: its partial "
            "sums, part 1 of 86\n"
            "   seen launch 4, expected 5; gave up after 2 s\n"
            "   hint: see whether every rank makes the same calls in the same order, and whether that rank's "
            "stream gets on; if it is only late, raise the deadline");
}

}  // namespace
}  // namespace tessera
