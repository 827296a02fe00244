// SPDX-License-Identifier: Apache-2.0
// The typed launch and the programmatic edge: in a stream, captured, made by hand, and where there is none.
#include "tessera/run/launch.hpp"

#include <gmock/gmock.h>

#include "launch_kernels.hpp"
#include "run_gpu/device_data.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/measure/residency.hpp"

namespace tessera {
namespace {

using launching::Times;
using vector_chain::device_array;
using vector_chain::Stream;

LaunchShape one_block(bool programmatic) {
  LaunchShape shape;
  shape.programmatic = programmatic;
  return shape;
}

class Launching : public testing::Test {
 protected:
  Launching() {
    cudaMemset(wrong_.get(), 0, sizeof(unsigned));
    // Loaded now: the second kernel may be launched while the first runs.
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(launching::first()));
    cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(launching::second()));
  }
  void pair(bool programmatic, unsigned value) {
    cudaMemsetAsync(word_.get(), 0, sizeof(unsigned), stream_);
    ASSERT_TRUE(launch(one_block(false), stream_, launching::first(), word_.get(), value, times_.get()));
    ASSERT_TRUE(launch(one_block(programmatic), stream_, launching::second(), word_.get(), value,
                       wrong_.get(), times_.get()));
  }
  Times times() {
    Times copied;
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(&copied, times_.get(), sizeof copied, cudaMemcpyDeviceToHost), cudaSuccess);
    return copied;
  }
  unsigned wrong() {
    unsigned copied = ~0u;
    EXPECT_EQ(cudaMemcpy(&copied, wrong_.get(), sizeof copied, cudaMemcpyDeviceToHost), cudaSuccess);
    return copied;
  }
  Times replay(cudaGraph_t graph) {
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    Times seen;
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
      seen = times();
    }
    cudaGraphExecDestroy(executable);
    return seen;
  }

  Stream stream_;
  vector_chain::DeviceArray<unsigned> word_ = device_array<unsigned>(1), wrong_ = device_array<unsigned>(1);
  vector_chain::DeviceArray<Times> times_ = device_array<Times>(1);
};

TEST_F(Launching, ProgrammaticStartsEarlyAndWaits) {
  int early = 0;
  // Starting early is allowed, never promised: the first launches load, and a host that is held up between
  // two launches for the first kernel's 50 us makes the second late. So until it was early often enough; one
  // that waits for the whole kernel never is.
  for (unsigned value = 1; value <= 2000 && early < 35; ++value) {
    pair(true, value);
    auto const seen = times();
    if (seen.second_started < seen.first_ended) ++early;
  }
  EXPECT_EQ(early, 35);
  EXPECT_EQ(wrong(), 0u);
}

TEST_F(Launching, TriggerAndWaitDoNothingElsewhere) {
  for (unsigned value = 1; value < 50; ++value) {
    pair(false, value);
    auto const seen = times();
    EXPECT_GT(seen.second_started, seen.first_ended);
  }
  EXPECT_EQ(wrong(), 0u);
}

TEST_F(Launching, ACaptureKeepsTheProgrammaticEdge) {
  for (bool const programmatic : {true, false}) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    pair(programmatic, 7);
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    auto const edges = edges_of(graph);
    ASSERT_TRUE(edges.has_value()) << to_text(edges.error());
    // The other one: from the node that clears the word.
    EXPECT_EQ(*edges, (GraphEdges{programmatic ? 1 : 2, programmatic ? 1 : 0}));
    auto const seen = replay(graph);
    EXPECT_EQ(seen.second_started < seen.first_ended, programmatic);
    cudaGraphDestroy(graph);
  }
  EXPECT_EQ(wrong(), 0u);
}

TEST_F(Launching, AnEdgeMadeByHandIsTheSame) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  unsigned value = 9;
  unsigned *word = word_.get(), *wrong_count = wrong_.get();
  Times* stamps = times_.get();
  void* first_arguments[] = {&word, &value, &stamps};
  void* second_arguments[] = {&word, &value, &wrong_count, &stamps};
  cudaKernelNodeParams node{};
  node.gridDim = node.blockDim = dim3(1);
  node.func = reinterpret_cast<void*>(launching::first());
  node.kernelParams = first_arguments;
  cudaGraphNode_t producer = nullptr, consumer = nullptr;
  ASSERT_EQ(cudaGraphAddKernelNode(&producer, graph, nullptr, 0, &node), cudaSuccess);
  node.func = reinterpret_cast<void*>(launching::second());
  node.kernelParams = second_arguments;
  ASSERT_EQ(cudaGraphAddKernelNode(&consumer, graph, nullptr, 0, &node), cudaSuccess);
  auto const added = add_programmatic_edge(graph, producer, consumer);
  ASSERT_TRUE(added.has_value()) << to_text(added.error());
  EXPECT_EQ(edges_of(graph).value(), (GraphEdges{0, 1}));
  auto const seen = replay(graph);
  EXPECT_LT(seen.second_started, seen.first_ended);
  EXPECT_EQ(wrong(), 0u);
  cudaGraphDestroy(graph);
}

TEST_F(Launching, ARefusalQuotesTheShape) {
  auto shape = one_block(true);
  shape.blocks = {3, 1, 1};
  shape.cluster = {2, 1, 1};
  auto const refused = launch(shape, stream_, launching::first(), word_.get(), 1u, times_.get());
  ASSERT_FALSE(refused.has_value());
  auto const text = to_text(refused.error());
  EXPECT_THAT(text, testing::HasSubstr("E0511: cudaLaunchKernelExC failed"));
  EXPECT_THAT(text, testing::HasSubstr("for a kernel: 3 blocks of 1 threads in clusters of 2, 0 bytes of "
                                       "dynamic shared memory, programmatic"));
}

TEST_F(Launching, WhatACompiledKernelTakesIsWhatWhyNotIsAsked) {
  auto const h200 = machine("h200").value();
  auto const address = reinterpret_cast<void const*>(launching::first());
  auto const whole = compiled_resources(address, 1024, 200 * 1024);
  auto const small = compiled_resources(address, 64, 40 * 1024);
  ASSERT_TRUE(whole.has_value() && small.has_value());
  EXPECT_GT(whole->registers_per_thread, 0);
  EXPECT_EQ(whole->shared_bytes, 200 * 1024);
  EXPECT_EQ(why_not(h200, *whole, *small).stopped_by, "shared memory");
  EXPECT_EQ(why_not(h200, *small, *small, 1).stopped_by, "");
}

}  // namespace
}  // namespace tessera
