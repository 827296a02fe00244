// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/residency.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

MachineProfile h200() { return machine("h200").value(); }

TEST(WhyNot, AGemmFillsTheSharedMemory) {
  // Two GEMM blocks of 384 threads and 216 KiB: one per SM, and no second one beside it.
  auto const answer = why_not(h200(), {384, 168, 221184}, {384, 168, 221184});
  EXPECT_EQ(answer.first_alone, 1);
  EXPECT_EQ(answer.second_beside, 0);
  EXPECT_EQ(answer.stopped_by, "shared memory");
  auto const text = to_text(answer, "gemm1", "gemm2");
  EXPECT_THAT(text, HasSubstr("No block of gemm2 fits on an SM beside 1 of gemm1: shared memory stops it."));
  // 2 (221184 + 1024) - 233472 = 210944 bytes are missing; so are 384 * 168 registers beside as many.
  EXPECT_THAT(text, HasSubstr("take 210944 bytes of shared memory from each block of the first kernel"));
  EXPECT_THAT(text, HasSubstr("registers from each block"));
}

TEST(WhyNot, ASmallKernelFitsBesideIt) {
  auto const answer = why_not(h200(), {256, 96, 200000}, {128, 32, 4096});
  EXPECT_GT(answer.second_beside, 0);
  EXPECT_THAT(answer.stopped_by, IsEmpty());
  // Nothing is taken twice: the combination is within every capacity, and one block more is not.
  int over = 0;
  for (auto const& u : answer.uses) {
    EXPECT_LE(u.resident + answer.second_beside * u.one_second, u.capacity) << u.resource;
    over += u.resident + (answer.second_beside + 1) * u.one_second > u.capacity;
  }
  EXPECT_GT(over, 0);
}

TEST(WhyNot, NamesEachResource) {
  auto const stop = [](Resources a, Resources b) { return why_not(h200(), a, b).stopped_by; };
  EXPECT_EQ(stop({1024, 16, 0}, {32, 16, 0}), "threads");
  EXPECT_EQ(stop({256, 255, 0}, {256, 64, 0}), "registers") << "one block of 65280 registers, 256 left";
  EXPECT_EQ(stop({32, 16, 0}, {32, 16, 0}), "block slots");
  EXPECT_EQ(stop({32, 16, 0}, {32, 16, 300000}), "shared memory") << "never fits, alone either";
}

// Two GEMMs of docs/design/notes-overhead.md that hung: room for both, and an SM took only one of them.
TEST(WhyNot, SaysThatMemoryIsDividedDifferently) {
  auto const answer = why_not(h200(), {128, 95, 28160}, {128, 80, 28160}, 2);
  EXPECT_GT(answer.second_beside, 0);
  EXPECT_EQ(answer.first_alone, 5);
  EXPECT_EQ(answer.second_alone, 6);
  // 5 and 6 times 29184 bytes, in the hardware's steps.
  EXPECT_EQ(answer.first_division, 164 * 1024);
  EXPECT_EQ(answer.second_division, 196 * 1024);
  auto const text = to_text(answer, "consumer", "producer");
  EXPECT_THAT(text, HasSubstr("164 KiB of shared memory for consumer\n  - 196 KiB for producer"));
  EXPECT_THAT(text, HasSubstr("cudaFuncAttributePreferredSharedMemoryCarveout"));
  auto const alike = why_not(h200(), {128, 95, 28160}, {128, 94, 28160}, 2);
  EXPECT_THAT(to_text(alike, "consumer", "producer"), Not(HasSubstr("divided")));
  // An SM with less ends with what it has.
  EXPECT_EQ(why_not(machine("v100").value(), {128, 32, 40000}, {128, 32, 40000}).first_division, 96 * 1024);
}

TEST(WhyNot, FewerResidentBlocksLeaveRoom) {
  EXPECT_EQ(why_not(h200(), {1024, 32, 0}, {1024, 32, 0}, 1).second_beside, 1);
  EXPECT_EQ(why_not(h200(), {1024, 32, 0}, {1024, 32, 0}, 2).second_beside, 0);
  EXPECT_EQ(why_not(h200(), {1024, 32, 0}, {1024, 32, 0}, 9).first_resident, 2);
  auto const none = why_not(h200(), {32, 1, 232449}, {32, 1, 0});
  EXPECT_EQ(none.second_beside, 0) << "there is no first kernel that it could be beside";
  EXPECT_THAT(to_text(none, "a", "b"),
              testing::StartsWith("No block of a fits on an SM: shared memory stops it.\n"));
  EXPECT_THAT(none.remedies,
              testing::ElementsAre("no SM of this machine holds even one block of the first kernel: "
                                   "it needs less shared memory"));
  EXPECT_THAT(to_text(why_not(h200(), {1024, 32, 0}, {1024, 32, 0}), "a", "b"),
              HasSubstr("at most 1 on an SM"));
}

TEST(WhyNot, RemediesLeaveBothKernelsSomethingToRunWith) {
  // 6 blocks of 10240 registers, and a product that takes nearly all: it fits beside none.
  auto const norm = why_not(h200(), {256, 40, 0}, {384, 168, 200000});
  EXPECT_EQ(norm.first_resident, 6);
  EXPECT_EQ(norm.second_beside, 0);
  EXPECT_EQ(why_not(h200(), {256, 40, 0}, {384, 168, 200000}, 1).second_beside, 0);
  EXPECT_THAT(norm.remedies, testing::Contains(HasSubstr(": too little is left to run with")));
  EXPECT_THAT(norm.remedies.back(), HasSubstr("choose kernels with smaller blocks"));
  EXPECT_THAT(norm.remedies, testing::Not(testing::Contains(HasSubstr("fewer blocks"))));
  // One fewer is not enough: the second needs room of three.
  auto const three = why_not(h200(), {256, 40, 0}, {256, 96, 0});
  EXPECT_EQ(three.first_resident, 6);
  EXPECT_THAT(three.remedies, testing::Contains(HasSubstr("at most 4 on an SM")));
  EXPECT_THAT(three.remedies, testing::Not(testing::Contains(HasSubstr("too little"))));
  EXPECT_EQ(why_not(h200(), {256, 40, 0}, {256, 96, 0}, 4).second_beside, 1);
  EXPECT_EQ(why_not(h200(), {256, 40, 0}, {256, 96, 0}, 5).second_beside, 0);
}

}  // namespace
}  // namespace tessera
