// SPDX-License-Identifier: Apache-2.0
// Launches that overlap their neighbours, graphs, and a launch that cannot finish.
#include <chrono>
#include <cmath>

#include "memory.hpp"

namespace tessera::skinny_sm90 {
namespace {

using mlp::ElementType;
using mlp::Form;

constexpr mlp::Shape shapes[] = {{1, 2048, 1376, Form::swiglu, ElementType::bf16},
                                 {16, 2048, 1376, Form::gelu, ElementType::bf16},
                                 {64, 2048, 1376, Form::swiglu, ElementType::bf16},
                                 {128, 2048, 1376, Form::gelu, ElementType::fp16}};

/// z = mlp(mlp(...mlp(x))), twice `pairs` times, each launch programmatic after the one before.
void launch_chain(Memory const& memory, Plan const& plan, int pairs, cudaStream_t stream) {
  for (int i = 0; i < pairs; ++i) {
    ok(launch(plan, memory.call(memory.buffers(i == 0 ? memory.x : memory.z, memory.y), true), stream));
    ok(launch(plan, memory.call(memory.buffers(memory.y, memory.z), true), stream));
  }
}

TEST(SkinnyChain, ReplaysOfAGraphHaveTheSameBits) {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (mlp::Shape const& shape : shapes)
    for (Config const& config : configs(shape)) {
      Memory memory(shape, 7);
      Plan plan;
      ok(prepare(shape, config, &plan));
      // One by one first: what the chain must come to.
      DeviceBuffer<unsigned short> expected(memory.z.size(), k_poison);
      for (int i = 0; i < 8; ++i) {
        auto const& from = i == 0 ? memory.x : i % 2 == 0 ? expected : memory.y;
        ok(launch(plan, memory.call(memory.buffers(from, i % 2 == 0 ? memory.y : expected), false), stream));
        ok(cudaStreamSynchronize(stream));
      }
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      launch_chain(memory, plan, 4, stream);
      ok(cudaStreamEndCapture(stream, &graph));
      ok(cudaGraphInstantiate(&executable, graph, 0));
      unsigned long long different = 0;
      for (int replay = 0; replay < 200; ++replay) {
        for (auto* array : {&memory.h, &memory.y, &memory.z}) poison(array->get(), array->size(), stream);
        ok(cudaGraphLaunch(executable, stream));
        if (replay % 2 == 1) ok(cudaGraphLaunch(executable, stream));
        different += differing(memory.z.get(), expected.get(), expected.size(), stream);
      }
      EXPECT_EQ(different, 0u) << shape.tokens << " tokens, " << to_string(config);
      EXPECT_EQ(memory.record().state, 0u) << explain(memory.record(), plan);
      ok(cudaGraphExecDestroy(executable));
      ok(cudaGraphDestroy(graph));
    }
  ok(cudaStreamDestroy(stream));
}

/// Makes x late and lets the next kernel start early.
__global__ void make_input(unsigned short const* from, unsigned short* x, std::size_t count) {
  pdl_trigger();
  pdl_wait();
  auto const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < 20'000)
    ;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    x[i] = from[i];
}

/// Reads y as soon as it may, and ruins it for the next round.
__global__ void take_output(unsigned short* y, unsigned short* to, std::size_t count) {
  pdl_trigger();
  pdl_wait();
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    to[i] = y[i];
    y[i] = 0x7FFF;
  }
}

template <class... Arguments, class... Given>
void launch_programmatically(void (*kernel)(Arguments...), cudaStream_t stream, Given... given) {
  gpu::Shape shape{16, 128};
  shape.programmatic = true;
  gpu::launch(shape, stream, kernel, given...);
}

TEST(SkinnyChain, BetweenForeignKernels) {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (mlp::Shape const& shape : shapes) {
    Memory memory(shape, 11);
    Plan plan;
    ok(prepare(shape, configs(shape).front(), &plan));
    DeviceBuffer<unsigned short> x(memory.x.size(), k_poison);
    for (int round = 0; round < 50; ++round) {
      poison(x.get(), x.size(), stream);
      launch_programmatically(make_input, stream, memory.x.get(), x.get(), x.size());
      ok(launch(plan, memory.call(memory.buffers(x, memory.y), true), stream));
      launch_programmatically(take_output, stream, memory.y.get(), memory.z.get(), memory.y.size());
    }
    EXPECT_LE(relative_error(memory.z.get(), memory.y_reference.get(), memory.z.size(), shape.type, stream),
              allowed_error);
    EXPECT_EQ(memory.record().state, 0u);
  }
  ok(cudaStreamDestroy(stream));
}

TEST(SkinnyStall, MissingPostIsNamed) {
  for (mlp::Shape const& shape : shapes) {
    Memory memory(shape, 5);
    Plan plan;
    Config const config = configs(shape).front();
    ok(prepare(shape, config, &plan));
    // A k-block of the second GEMM starts one post behind.
    constexpr std::size_t late = 9;
    auto words = memory.workspace.download();
    words[32 + late] = ~0u;
    memory.workspace.upload(words);
    auto const begin = std::chrono::steady_clock::now();
    ok(launch(plan, memory.call(memory.buffers(memory.x, memory.y), false), nullptr));
    ok(launch(plan, memory.call(memory.buffers(memory.x, memory.y), true), nullptr));
    ok(cudaDeviceSynchronize());
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 60) << "no hang; how soon is the host's business";
    StallRecord const record = memory.record();
    EXPECT_EQ(record.state, 2u);
    EXPECT_EQ(record.stage, 1);
    EXPECT_EQ(record.semaphore, static_cast<long long>(late));
    EXPECT_EQ(record.expected, 64u);
    EXPECT_EQ(record.seen, 63u);
    EXPECT_NE(explain(record, plan).find("waits for hidden features 576...639: 63 of 64 posted"),
              std::string::npos)
        << explain(record, plan);
    std::printf("  after %.2f s: %s\n", took.count(), explain(record, plan).c_str());
    // Zeroed again, the same memory works.
    memory.workspace.fill(0);
    memory.stall.fill(0);
    poison(memory.y.get(), memory.y.size(), nullptr);
    ok(launch(plan, memory.call(memory.buffers(memory.x, memory.y), true), nullptr));
    EXPECT_LE(relative_error(memory.y.get(), memory.y_reference.get(), memory.y.size(), shape.type, nullptr),
              allowed_error);
  }
}

TEST(SkinnyLaunch, RefusesWhatItCannotDo) {
  Memory memory(shapes[0], 1);
  Plan plan;
  ok(prepare(shapes[0], configs(shapes[0]).front(), &plan));
  Call const good = memory.call(memory.buffers(memory.x, memory.y), false);
  Call call = good;
  call.watch = {};
  EXPECT_EQ(launch(plan, call, nullptr), cudaErrorInvalidValue) << "no deadline";
  call = good;
  call.buffers.h = nullptr;
  EXPECT_EQ(launch(plan, call, nullptr), cudaErrorInvalidValue);
  call = good;
  call.buffers.x = memory.x.get() + 1;
  EXPECT_EQ(launch(plan, call, nullptr), cudaErrorInvalidValue) << "not aligned";
  call = good;
  call.workspace = nullptr;
  EXPECT_EQ(launch(plan, call, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch(Plan{}, good, nullptr), cudaErrorInvalidValue);
  Config too_many = configs(shapes[0]).front();
  too_many.blocks = 1300;
  EXPECT_EQ(prepare(shapes[0], too_many, &plan), cudaErrorNotSupported);
}

TEST(SkinnyLaunch, CooperativelyItIsTheSameAndTooManyBlocksAreRefused) {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int refused = 0;
  for (mlp::Shape const& shape : shapes)
    for (Config const& config : configs(shape)) {
      Memory memory(shape, 9);
      Plan plan;
      ok(prepare(shape, config, &plan));
      auto plain = memory.call(memory.buffers(memory.x, memory.z), false);
      auto together = memory.call(memory.buffers(memory.x, memory.y), false);
      together.cooperative = true;
      poison(memory.y.get(), memory.y.size(), stream);
      ok(launch(plan, plain, stream));
      ok(launch(plan, together, stream));
      EXPECT_EQ(differing(memory.y.get(), memory.z.get(), memory.y.size(), stream), 0u)
          << shape.tokens << " tokens, " << to_string(config);
      // Asked for both, it starts early.
      together.programmatic = true;
      ok(launch(plan, together, stream));
      // In a graph.
      together.programmatic = false;
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      ok(launch(plan, together, stream));
      ok(cudaStreamEndCapture(stream, &graph));
      ok(cudaGraphInstantiate(&executable, graph, 0));
      poison(memory.y.get(), memory.y.size(), stream);
      ok(cudaGraphLaunch(executable, stream));
      EXPECT_EQ(differing(memory.y.get(), memory.z.get(), memory.y.size(), stream), 0u);
      ok(cudaGraphExecDestroy(executable));
      ok(cudaGraphDestroy(graph));
      auto too_many = plan;
      too_many.config.blocks *= 2;
      // Twice as many may fit, or be no cut of this shape.
      refused += launch(too_many, together, stream) == cudaErrorCooperativeLaunchTooLarge;
      (void)cudaGetLastError();
      ok(cudaStreamSynchronize(stream));
    }
  EXPECT_GT(refused, 0) << "the driver was never asked";
  ok(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace tessera::skinny_sm90
