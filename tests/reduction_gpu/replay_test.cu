// SPDX-License-Identifier: Apache-2.0
// The same bits always: graphs replayed a hundred thousand times, streams side by side, capture at first use.
#include <gtest/gtest.h>

#include <cstring>

#include "data.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/launches.hpp"
#include "kernels/reduction/sum.hpp"

namespace tessera::reduction {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;

constexpr std::size_t sizes[] = {7, 300, 5000, 20000, 70001, 262144, 300007, 1048576, 1500001, 2500000};
constexpr int count = sizeof sizes / sizeof sizes[0];
constexpr std::size_t most = 2500000;

/// Compares with the first replay's results and poisons them for the next.
__global__ void compare(unsigned* out, unsigned* first, unsigned long long* wrong, int results) {
  int const i = static_cast<int>(threadIdx.x);
  if (i >= results) return;
  if (first[i] == 0xFFFFFFFFu)
    first[i] = out[i];
  else if (first[i] != out[i])
    atomicAdd(wrong, 1ull);
  out[i] = 0xFFFFFFFFu;
}

struct Replays {
  cudaStream_t stream = nullptr;
  DeviceBuffer<float> x{most, gpu::k_poison}, out{4 * count, 0xFF};
  DeviceBuffer<unsigned> first{4 * count, 0xFF};
  DeviceBuffer<unsigned long long> wrong{1, 0};
  cudaGraphExec_t ready = nullptr;
  int results = 0;

  explicit Replays(unsigned seed) {
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    x.upload(random_array<float>(most, seed));
  }
  void begin() { ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); }
  void end() {
    compare<<<1, 64, 0, stream>>>(reinterpret_cast<unsigned*>(out.get()), first.get(), wrong.get(), results);
    ok(cudaGetLastError());
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&ready, graph, 0));
    ok(cudaGraphDestroy(graph));
  }
  ~Replays() {
    cudaGraphExecDestroy(ready);
    cudaStreamDestroy(stream);
  }
};

void expect_right(Replays& replays, unsigned seed) {
  auto const x = random_array<float>(most, seed);
  auto const bits = replays.first.download();
  for (int i = 0; i < replays.results; ++i) {
    float value;
    std::memcpy(&value, &bits[static_cast<std::size_t>(i)], sizeof value);
    EXPECT_TRUE(right(value, Reference<float>(x.data(), sizes[i % count]))) << i;
  }
  EXPECT_EQ(replays.wrong.download().front(), 0u);
}

// What sum() makes for a new stream, it makes while that stream is captured.
TEST(Replay, AHundredThousandSumsHaveTheSameBits) {
  Replays replays(11);
  replays.begin();
  for (std::size_t const size : sizes) {
    auto const done = sum(replays.x.get(), size, replays.out.get() + replays.results++, replays.stream);
    ASSERT_TRUE(done) << done.error().front().message;
  }
  replays.end();
  int const launches = gpu::launches(10000);
  for (int i = 0; i < launches; ++i) ok(cudaGraphLaunch(replays.ready, replays.stream));
  ok(cudaStreamSynchronize(replays.stream));
  expect_right(replays, 11);
}

TEST(Replay, EveryVariantProgrammaticToo) {
  auto made = Sum::make();
  ASSERT_TRUE(made);
  Replays replays(12);
  replays.begin();
  Variant const others[] = {Variant::data_token, Variant::last_block,  Variant::grid_barrier,
                            Variant::clusters,   Variant::cooperative, Variant::two_launches_pdl};
  int which = 0;
  for (bool const programmatic : {false, true, true, true})
    for (std::size_t const size : sizes) {
      auto const config =
          with_variant(choose(Element::fp32, size, made->sms()), others[which++ % 6], made->sms());
      // A cooperative launch is not programmatic as well.
      bool const can = programmatic && config.variant != Variant::cooperative;
      Early const early{can, can ? 1u << 20 : 0};
      auto const done = made->launch(Element::fp32, replays.x.get(), size,
                                     replays.out.get() + replays.results++, replays.stream, config, early);
      ASSERT_TRUE(done) << done.error().front().message;
    }
  replays.end();
  int const launches = gpu::launches(2500);
  for (int i = 0; i < launches; ++i) ok(cudaGraphLaunch(replays.ready, replays.stream));
  ASSERT_TRUE(made->finish(replays.stream));
  expect_right(replays, 12);
}

TEST(Replay, TwoStreamsAtOnce) {
  Replays a(13), b(14);
  for (auto* one : {&a, &b}) {
    one->begin();
    for (std::size_t const size : sizes)
      ASSERT_TRUE(sum(one->x.get(), size, one->out.get() + one->results++, one->stream));
    one->end();
  }
  int const launches = gpu::launches(1000);
  for (int i = 0; i < launches; ++i) {
    ok(cudaGraphLaunch(a.ready, a.stream));
    ok(cudaGraphLaunch(b.ready, b.stream));
  }
  ok(cudaStreamSynchronize(a.stream));
  ok(cudaStreamSynchronize(b.stream));
  expect_right(a, 13);
  expect_right(b, 14);
}

}  // namespace
}  // namespace tessera::reduction
