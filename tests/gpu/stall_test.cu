// SPDX-License-Identifier: Apache-2.0
// Hangs made on purpose: each ends, the record names what was missing, and the GPU goes on.
#include <gtest/gtest.h>

#include <chrono>

#include "chain.cuh"
#include "golden/fused_in_order.cuh"
#include "golden/mlp_row_sync.cuh"
#include "measure/gpu/methods/pairs.cuh"

namespace tessera::gpu {
namespace {

constexpr unsigned long long k_deadline_ns = 200'000'000;

/// Zeroed memory of a chain, and how long it takes to meet the deadline.
class Stall {
 public:
  Stall(long long semaphores, int stages)
      : semaphores_(static_cast<std::size_t>(semaphores), 0),
        counters_(static_cast<std::size_t>(counters_for(stages)), 0),
        record_(1, 0) {}
  ChainMemory memory() const { return {semaphores_.get(), counters_.get()}; }
  Watch watch() const { return {record_.get(), k_deadline_ns}; }
  StallRecord wait_for_end() {
    auto const begin = std::chrono::steady_clock::now();
    ok(cudaDeviceSynchronize());
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 60) << "no hang; how soon is the host's business";
    auto const record = record_.download()[0];
    std::printf("  after %.2f s: stage %d, tile %lld waits for semaphore %lld: %u of %u\n", took.count(),
                record.stage, record.tile, record.semaphore, record.seen, record.expected);
    return record;
  }

 private:
  DeviceBuffer<unsigned> semaphores_;
  DeviceBuffer<unsigned long long> counters_;
  DeviceBuffer<StallRecord> record_;
};

/// A kernel of this process does what it should after a stall.
void expect_usable() {
  using namespace gpt_3_mlp_RowSync;
  using Run = ChainRun<chain, true, gemm1, gemm2>;
  Run run(How::pdl, false, 3, 0);
  run.launch(10);
  run.finish();
  EXPECT_EQ(run.stall().state, 0u);
  EXPECT_EQ(run.result(), Run::reference(3, 10));
}

template <class Stage>
__global__ void post_all_but(StageView<Stage, Watch> stage, long long missing) {
  stage.start();
  if (linear_of(Stage::grid(), stage.tile()) == missing && stage.split() == 1) return;
  stage.post();
}
template <class Stage>
__global__ void wait_and_post(StageView<Stage, Watch> stage) {
  stage.start();
  if (!stage.wait_all(operand_a)) return;
  stage.post();
}

TEST(GpuStall, MissingPostIsNamed) {
  using namespace gpt_3_mlp_RowSync;
  Stall stall(chain::semaphores, chain::stages);
  load(post_all_but<gemm1>);
  load(wait_and_post<gemm2>);
  // Tile (5, 2): row 2 gets 47 of its 48 posts.
  StageView<gemm1, Watch> const first(stall.memory(), stall.watch());
  StageView<gemm2, Watch> const second(stall.memory(), stall.watch());
  post_all_but<gemm1><<<192, 64>>>(first, 2 * 24 + 5);
  wait_and_post<gemm2><<<192, 64>>>(second);
  auto const record = stall.wait_for_end();
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.stage, 1);
  EXPECT_EQ(record.tile / 48, 2);
  EXPECT_EQ(record.semaphore, 2);
  EXPECT_EQ(record.seen, 47u);
  EXPECT_EQ(record.expected, 48u);
  EXPECT_GE(record.waited_ns, k_deadline_ns);
  expect_usable();
}

/// Tickets that ask for two workers: the consumer's tile is drawn first.
struct ConsumerFirst {
  TESSERA_HOST_DEVICE static constexpr Ticket ticket_at(long long ticket) { return {ticket == 0 ? 1 : 0, 0}; }
};
struct TwoWorkers {
  static constexpr int first_stage = 0;
  static constexpr bool triggers_at_start = false;
  static constexpr bool completes_after_previous = false;
  static constexpr long long tickets = 2;
  using Tickets = ConsumerFirst;
};
using One = PairStage<1, 0>;
using Other = PairStage<1, 1>;
__global__ void work(ChainMemory memory, Watch watch, int* done) {
  Worker<TwoWorkers, Watch> worker(memory, watch, gridDim.x);
  while (worker.next()) {
    if (worker.is<One>()) {
      auto stage = worker.as<One>();
      stage.post();
    } else {
      auto stage = worker.as<Other>();
      if (!stage.wait_all(operand_a)) return;
      if (threadIdx.x == 0) *done = 1;
      stage.post();
    }
  }
}

TEST(GpuStall, TooFewWorkersAreNamed) {
  DeviceBuffer<int> done(1, 0);
  {
    Stall stall(2, 2);
    work<<<1, 64>>>(stall.memory(), stall.watch(), done.get());
    auto const record = stall.wait_for_end();
    EXPECT_EQ(record.state, 2u);
    EXPECT_EQ(record.stage, 1);
    EXPECT_EQ(record.tile, 0);
    EXPECT_EQ(record.semaphore, 0);
    EXPECT_EQ(record.seen, 0u);
    EXPECT_EQ(record.expected, 1u);
    EXPECT_EQ(done.download()[0], 0);
  }
  // The same with enough of them.
  Stall stall(2, 2);
  work<<<2, 64>>>(stall.memory(), stall.watch(), done.get());
  EXPECT_EQ(stall.wait_for_end().state, 0u);
  EXPECT_EQ(done.download()[0], 1);
  expect_usable();
}

constexpr int k_many = 1024;
using Many = PairStage<k_many, 0, false, Start::ticket>;
using ManyWait = PairStage<k_many, 1, false, Start::ticket>;
__global__ void post_only(StageView<Many, Watch> stage) {
  stage.start();
  stage.post();
}

TEST(GpuStall, ConsumersThatHoldEverySmAreNamed) {
  Stall stall(2 * k_many, 2);
  load(post_only);
  load(wait_and_post<ManyWait>);
  constexpr int k_shared = 200 * 1024;
  ok(cudaFuncSetAttribute(wait_and_post<ManyWait>, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared));
  ok(cudaFuncSetAttribute(post_only, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared));
  cudaStream_t streams[2];
  for (auto& stream : streams) ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // More consumer blocks than can be resident, each alone on its SM, and only then their producers.
  StageView<ManyWait, Watch> const consumers(stall.memory(), stall.watch());
  StageView<Many, Watch> const producers(stall.memory(), stall.watch());
  wait_and_post<ManyWait><<<k_many, 64, k_shared, streams[1]>>>(consumers);
  ok(cudaGetLastError());
  post_only<<<k_many, 64, k_shared, streams[0]>>>(producers);
  ok(cudaGetLastError());
  auto const record = stall.wait_for_end();
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.stage, 1);
  EXPECT_EQ(record.semaphore, record.tile);
  EXPECT_EQ(record.seen, 0u);
  EXPECT_EQ(record.expected, 1u);
  for (auto stream : streams) ok(cudaStreamDestroy(stream));
  expect_usable();
}

}  // namespace
}  // namespace tessera::gpu
