// SPDX-License-Identifier: Apache-2.0
// Processes, a GPU each: products with their collective are right, and a rank that is lost is named.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "src/bench/asked_gpus.hpp"
#include "tests/ranks/processes.hpp"

namespace tessera {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class PeerProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (cudaGetDeviceCount(&present) != cudaSuccess || present < ranks)
      GTEST_SKIP() << "needs " << ranks << " GPUs";
    port.free();
  }
  void needs_nccl() const {
    if (dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) == nullptr) GTEST_SKIP() << dlerror();
  }
  /// What all ranks of a program say; one that hangs is ended.
  void start(char const* what, bool sees_all = true) {
    std::vector<std::unique_ptr<Process>> started;
    for (int rank = 0; rank < ranks; ++rank)
      started.push_back(std::make_unique<Process>([&] {
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("LOCAL_RANK", sees_all ? std::to_string(rank).c_str() : "0", 1);
        if (!sees_all) setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("TESSERA_PORT", std::to_string(port.number).c_str(), 1);
        // Each rank makes the operands of all, and reaches the memory of all GPUs.
        constexpr unsigned k_patience_a_rank = 15;
        alarm(k_patience_a_rank * static_cast<unsigned>(ranks));
        // Its words go where the test reads them.
        auto const program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("peer_rank");
        execl(program.c_str(), program.c_str(), what, nullptr);
        return "cannot start " + program.string();
      }));
    said.clear();
    for (auto const& one : started) said.push_back(one->said());
  }
  void expect_right(char const* what, bool sees_all = true) {
    start(what, sees_all);
    for (auto const& one : said) EXPECT_EQ(one, "right\n");
  }

  /// What those say that rank 1 has left.
  std::vector<std::string> others() const {
    auto all = said;
    all.erase(all.begin() + 1);
    return all;
  }
  std::string on_gpus() const { return " on " + std::to_string(ranks) + " GPUs"; }

  Port port;
  int const ranks = bench::asked_gpus();
  int present = 0;  ///< GPUs
  std::vector<std::string> said;
};

TEST_F(PeerProcesses, EveryWayIsRight) { expect_right("every_way"); }
TEST_F(PeerProcesses, OneCallForEach) { expect_right("one_calls"); }
TEST_F(PeerProcesses, MlpsAreRight) { expect_right("mlps"); }
TEST_F(PeerProcesses, AttentionBlocksAreRight) { expect_right("attentions"); }
TEST_F(PeerProcesses, ReplaysOfGraphsHaveTheSameBits) { expect_right("graphs"); }
TEST_F(PeerProcesses, AHundredThousandCallsHaveTheSameBits) { expect_right("many_replays"); }
TEST_F(PeerProcesses, ARankThatIsLateIsNamedOnAllAndTheNextCallWorks) { expect_right("late_once"); }
TEST_F(PeerProcesses, RefusalsLeaveTheGroupAsItIs) { expect_right("refusals"); }

/// As SLURM deals GPUs to tasks.
TEST_F(PeerProcesses, WhoseOwnGpuIsAllTheySee) {
  expect_right("one_calls", false);
  expect_right("graphs", false);
}

TEST_F(PeerProcesses, ByTheLibraryToo) {
  needs_nccl();
  if (!IsSkipped()) expect_right("by_library");
}

TEST_F(PeerProcesses, ARankThatDiesIsNamed) {
  for (char const* const what : {"dies_words", "dies_copy"}) {
    start(what);
    EXPECT_EQ(said[1], "dies\n");
    auto const heard = others();
    for (std::size_t i = 0; i < heard.size(); ++i) {
      auto const rank = std::to_string(i == 0 ? 0 : i + 1);
      EXPECT_THAT(heard[i], StartsWith("error E0582: gemm_all_reduce of 200 x 512 x 256" + on_gpus() +
                                       ": rank " + rank + " waits for rank 1: "));
      EXPECT_THAT(heard[i], HasSubstr(", expected 2; gave up after 1 s"));
      EXPECT_THAT(heard[i], HasSubstr("error E0586: rank 1 (process "));
      EXPECT_THAT(heard[i], HasSubstr(") has ended\n"));
      EXPECT_THAT(heard[i], EndsWith("\nright\n"));
    }
  }
}

TEST_F(PeerProcesses, ARankThatHangsIsNamedOnAll) {
  start(ranks == 2 ? "hangs_add" : "hangs_store");
  EXPECT_THAT(said[0], StartsWith("error E0582: gemm_all_reduce of 200 x 512 x 256" + on_gpus() +
                                  ": rank 0 waits for rank 1: "));
  for (auto const& one : said) {
    EXPECT_THAT(one, HasSubstr("error E0586: rank 1 (process "));
    EXPECT_THAT(one, HasSubstr(") has not come within 6 s\n"));
    EXPECT_THAT(one, EndsWith("\nright\n"));
  }
}

TEST_F(PeerProcesses, TheLibraryIsEndedWhereARankIsLost) {
  needs_nccl();
  if (IsSkipped()) return;
  start("dies_sequential");
  for (auto const& one : others()) {
    EXPECT_THAT(one, HasSubstr("error E0586: rank 1 (process "));
    EXPECT_THAT(one, EndsWith("\nright\n"));
  }
  start("hangs_sequential");
  for (auto const& one : said) {
    // With more than two, whoever gave up first has spoken for all.
    EXPECT_THAT(one, HasSubstr("error E0582: gemm_all_reduce of 200 x 512 x 256" + on_gpus() + ": rank "));
    EXPECT_THAT(one, HasSubstr(" waits in NCCL for a rank that does not come\n"));
    if (ranks == 2) {
      EXPECT_THAT(one, HasSubstr(": rank 0 waits in NCCL "));
    }
    EXPECT_THAT(one, EndsWith("\nright\n"));
  }
}

TEST_F(PeerProcesses, OtherSizesAreNamedOnAll) {
  start("other_sizes");
  for (auto const& one : said) {
    EXPECT_THAT(one, HasSubstr(" make different calls\n"));
    EXPECT_THAT(one, HasSubstr("gemm_all_reduce of 8 x 512 x 256" + on_gpus() + " of bf16 by words\n"));
    EXPECT_THAT(one, HasSubstr("gemm_all_reduce of 16 x 512 x 256" + on_gpus() + " of bf16 by words\n"));
  }
}

TEST_F(PeerProcesses, RanksNeedAGpuEach) {
  start("one_gpu");
  for (auto const& one : said)
    EXPECT_THAT(one, StartsWith("error E0580: rank 0 and rank 1 have the same GPU\n"));
  start("gpu_that_is_not_there");
  for (auto const& one : said)
    EXPECT_THAT(one, StartsWith("error E0580: rank 1: a group with GPU 99, of " + std::to_string(present) +
                                " that are there\n"));
}

TEST_F(PeerProcesses, WithoutPeerAccessTheLibraryDoesIt) {
  needs_nccl();
  if (IsSkipped()) return;
  start("without_peer_access");
  for (auto const& one : said) {
    EXPECT_THAT(one, StartsWith("sequential (peer access is turned off (PeerGroupOptions)), "));
    EXPECT_THAT(one,
                HasSubstr("error E0580: the way \"words\": peer access is turned off (PeerGroupOptions)\n"));
    EXPECT_THAT(one, EndsWith("\nright\n"));
  }
}

}  // namespace
}  // namespace tessera
