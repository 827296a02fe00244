// SPDX-License-Identifier: Apache-2.0
// Which GPUs are a group, and what is said of a rank that did not come.
#include "tessera/communicate/reach.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string refusal_of(std::vector<int> const& devices, int present) {
  auto const made = check_devices(devices, present);
  return made ? "" : to_text(made.error());
}

TEST(Reach, GpusThatReachEachOtherAreNotApart) {
  auto const all_but = [](int lonely) {
    return [lonely](int from, int to) { return from != lonely && to != lonely; };
  };
  EXPECT_EQ(why_apart({0}, all_but(0)), "");
  EXPECT_EQ(why_apart({0, 1}, all_but(2)), "");
  EXPECT_EQ(why_apart({0, 1, 3}, all_but(3)), "GPU 0 does not reach the memory of GPU 3");
  EXPECT_EQ(refusal_of({0}, 1), "");
  EXPECT_EQ(refusal_of({3, 1, 0}, 4), "");
}

TEST(Reach, WhatNeedsItSaysSo) {
  EXPECT_EQ(
      to_text(needs_reach("the way \"store\"", "GPU 0 does not reach the memory of GPU 3")),
      "error E0580: the way \"store\": GPU 0 does not reach the memory of GPU 3\n"
      "   hint: take GPUs that NVLink or a PCIe switch joins (nvidia-smi topo -p2p r), or leave the way to "
      "the library, which takes NCCL then");
}

TEST(Reach, RanksOfOneGpuAreRefusedAndThoseOfOtherHostsAreApart) {
  EXPECT_EQ(why_apart({{"a", "0"}, {"a", "1"}}), "");
  EXPECT_EQ(why_apart({{"a", "0"}, {"a", "1"}, {"b", "0"}}), "rank 0 and rank 2 are on different hosts");
  EXPECT_TRUE(check_places({{"a", "0"}, {"b", "0"}}));
  auto const twice = check_places({{"a", "0"}, {"a", "1"}, {"a", "1"}});
  ASSERT_FALSE(twice);
  EXPECT_EQ(to_text(twice.error()),
            "error E0580: rank 1 and rank 2 have the same GPU\n"
            "   hint: give each rank a GPU of its own: the one of its LOCAL_RANK");
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

TEST(Reach, AStallOfSomethingElseNamesBoth) {
  EXPECT_EQ(
      to_text({describe_other_stall("a box of 24x24x24 cells", "a sum", "said once", "compute again")}),
      "error E0520: an earlier launch of a box of 24x24x24 cells gave up: a sum may have read what it did "
      "not "
      "write\n"
      "   said once\n"
      "   hint: compute again");
}

}  // namespace
}  // namespace tessera
