// SPDX-License-Identifier: Apache-2.0
// Chains beside each other, and in a part of the GPU.
#include <cuda.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/context_sms.hpp"
#include "run_gpu/device_data.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/run/device.hpp"
#include "tessera/run/launch.hpp"

namespace tessera {
namespace {

using support::Policy;
using testing::HasSubstr;
using vector_chain::DeviceData;
using vector_chain::Kind;
using vector_chain::Stream;

template <class T>
std::string said(Expected<T> const& outcome) {
  return outcome ? "accepted" : to_text(outcome.error());
}

/// Stages first and second of `tiles` tiles each in two streams, without a wait kernel (W), a block on an SM,
/// the first ready so many milliseconds after the second: until then second's blocks hold SMs and wait.
struct Waiting {
  Plan plan;
  DeviceData data;
  Expected<Chain> chain;

  Waiting(int tiles, int late_ms, unsigned seed)
      : plan(support::make_plan(vector_chain::pipeline(2, tiles, 1, 1), machine("h200").value(),
                                Mechanism::wait_kernel, Policy::row_sync, {false, true, false})),
        data(plan.pipeline, seed),
        chain(make(late_ms)) {}

  Expected<Chain> make(int late_ms) {
    auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
    for (auto& kernel : kernels) kernel.dynamic_shared_bytes = 150 * 1024;
    vector_chain::spin_before_first(kernels, plan, late_ms);
    ChainOptions o;
    o.deadline_seconds = 0.3;
    return Chain::make(plan, kernels, o);
  }
};

/// Seconds for `rounds` launches of each, in streams of their own or all in one.
double run_both(Waiting& a, Waiting& b, int rounds, bool in_one = false) {
  Stream own[2];
  cudaStream_t const streams[] = {own[0], own[in_one ? 0 : 1]};
  Waiting* const both[] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    vector_chain::spin(1, streams[i]);  // loads the kernels
    both[i]->data.poison(streams[i]);
    both[i]->data.compare(streams[i]);
  }
  auto const before = a.data.mismatches() + b.data.mismatches();
  auto const begin = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(said(both[i]->chain->launch(streams[i])), "accepted");
      both[i]->data.compare(streams[i]);
    }
  for (auto* one : both) EXPECT_EQ(said(one->chain->finish()), "accepted");
  EXPECT_EQ(a.data.mismatches() + b.data.mismatches(), before);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// 100 blocks and 32 of the other chain's 100 hold all of 132 SMs, and neither first stage finds a place: each
// is proved by itself, and both together stall.
TEST(Company, ChainsThatNeedMoreSmsThanThereAreTakeTurns) {
  Waiting a(100, 20, 51), b(100, 20, 52);
  ASSERT_EQ(said(a.chain), "accepted");
  ASSERT_EQ(said(b.chain), "accepted");
  constexpr int rounds = 5;
  EXPECT_GT(run_both(a, b, rounds), 2 * rounds * 0.020);
}

TEST(Company, ChainsThatFitRunAtTheSameTime) {
  Waiting a(40, 50, 53), b(40, 50, 54);
  ASSERT_EQ(said(a.chain), "accepted");
  ASSERT_EQ(said(b.chain), "accepted");
  constexpr int rounds = 4;
  // A busy host may delay one measurement, but not all: kept apart, they never take less than in one stream.
  double at_once = 0, in_turn = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    in_turn = run_both(a, b, rounds, true);
    at_once = run_both(a, b, rounds);
    if (at_once < 0.75 * in_turn) return;
  }
  ADD_FAILURE() << "at once " << at_once << " s, one behind the other " << in_turn << " s";
}

/// Another thread captures in the mode that forbids unsafe calls in all threads, PyTorch's default.
class CaptureElsewhere {
 public:
  CaptureElsewhere() {
    thread_ = std::thread([this] {
      EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
      vector_chain::launch_empty(stream_);
      begun_.set_value();
      end_.get_future().wait();
      vector_chain::launch_empty(stream_);
      cudaGraph_t graph = nullptr;
      ended_ = cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      (void)cudaGetLastError();
    });
    begun_.get_future().wait();
  }
  CaptureElsewhere(CaptureElsewhere const&) = delete;
  CaptureElsewhere& operator=(CaptureElsewhere const&) = delete;
  ~CaptureElsewhere() {
    if (thread_.joinable()) (void)end();
  }
  cudaError_t end() {
    end_.set_value();
    thread_.join();
    return ended_;
  }

 private:
  Stream stream_;
  std::promise<void> begun_, end_;
  cudaError_t ended_ = cudaSuccess;
  std::thread thread_;
};

TEST(Company, ChainsTakeTurnsWhileAnotherThreadCaptures) {
  Waiting a(100, 20, 71), b(100, 20, 72);
  ASSERT_EQ(said(a.chain), "accepted");
  ASSERT_EQ(said(b.chain), "accepted");
  (void)run_both(a, b, 1);  // loads the kernels
  auto const before = a.data.mismatches() + b.data.mismatches();
  Stream one, other;
  vector_chain::launch_empty(one);
  ASSERT_EQ(cudaStreamSynchronize(one), cudaSuccess);
  CaptureElsewhere capture;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(said(a.chain->launch(one)), "accepted");
    EXPECT_EQ(said(b.chain->launch(other)), "accepted");
    a.data.compare(one);
    b.data.compare(other);
  }
  EXPECT_EQ(said(a.chain->finish()), "accepted");
  EXPECT_EQ(said(b.chain->finish()), "accepted");
  EXPECT_EQ(capture.end(), cudaSuccess) << "the other thread's capture is as it was";
  EXPECT_EQ(a.data.mismatches() + b.data.mismatches(), before);
}

TEST(Company, AChainMayBeLaunchedWhileAnotherIsEnqueued) {
  Waiting inner(16, 1, 73), outer(16, 1, 74);
  ASSERT_EQ(said(inner.chain), "accepted");
  ASSERT_EQ(said(outer.chain), "accepted");
  auto kernels = vector_chain::kernels(outer.plan, outer.data.buffers(), Kind::watched);
  Stream one, other;
  std::string launched;
  kernels.front().pack = [&, pack = kernels.front().pack](ChainViews const& views,
                                                          KernelArguments& arguments) {
    launched = said(inner.chain->launch(other));
    pack(views, arguments);
  };
  ChainOptions o;
  o.deadline_seconds = 0.3;
  auto chain = Chain::make(outer.plan, kernels, o);
  ASSERT_EQ(said(chain), "accepted");
  EXPECT_EQ(said(chain->launch(one)), "accepted");
  EXPECT_EQ(launched, "accepted");
  EXPECT_EQ(said(chain->finish()), "accepted");
  EXPECT_EQ(said(inner.chain->finish()), "accepted");
}

TEST(Company, GraphsTakeTurnsToo) {
  Waiting a(100, 20, 55), b(100, 20, 56);
  ASSERT_EQ(said(a.chain), "accepted");
  ASSERT_EQ(said(b.chain), "accepted");
  auto graph_a = a.chain->capture(), graph_b = b.chain->capture();
  ASSERT_EQ(said(graph_a), "accepted");
  ASSERT_EQ(said(graph_b), "accepted");
  Stream one, other;
  for (int round = 0; round < 3; ++round) {
    a.data.poison(one);
    b.data.poison(other);
    ASSERT_EQ(said(graph_a->launch(one)), "accepted");
    ASSERT_EQ(said(graph_b->launch(other)), "accepted");
    a.data.compare(one);
    b.data.compare(other);
  }
  EXPECT_EQ(said(a.chain->finish()), "accepted");
  EXPECT_EQ(said(b.chain->finish()), "accepted");
  EXPECT_EQ(a.data.mismatches() + b.data.mismatches(), 0u);
}

TEST(Company, GraphsOfTheCallersTakeTurnsByReplay) {
  Waiting a(100, 20, 55), b(100, 20, 56);
  ASSERT_EQ(said(a.chain), "accepted");
  ASSERT_EQ(said(b.chain), "accepted");
  Stream one, other;
  auto const captured = [](Waiting& of, cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(said(of.chain->launch(stream)), "accepted");
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return executable;
  };
  auto* const graph_a = captured(a, one);
  auto* const graph_b = captured(b, other);
  auto const launch = [](cudaGraphExec_t graph) {
    return [graph](GpuStream in) { return static_cast<int>(cudaGraphLaunch(graph, in)); };
  };
  for (int round = 0; round < 3; ++round) {
    a.data.poison(one);
    b.data.poison(other);
    ASSERT_EQ(said(a.chain->replay(one, launch(graph_a))), "accepted");
    ASSERT_EQ(said(b.chain->replay(other, launch(graph_b))), "accepted");
    a.data.compare(one);
    b.data.compare(other);
  }
  EXPECT_EQ(said(a.chain->finish()), "accepted");
  EXPECT_EQ(said(b.chain->finish()), "accepted");
  EXPECT_EQ(a.data.mismatches() + b.data.mismatches(), 0u);
  cudaGraphExecDestroy(graph_a);
  cudaGraphExecDestroy(graph_b);
}

TEST(Company, AChainThatIsGoneIsNotWaitedFor) {
  Waiting stays(100, 1, 57);
  ASSERT_EQ(said(stays.chain), "accepted");
  Stream stream;
  for (unsigned i = 0; i < 3; ++i) {
    Waiting goes(100, 1, 58 + i);
    ASSERT_EQ(said(goes.chain), "accepted");
    Stream other;
    ASSERT_EQ(said(goes.chain->launch(other)), "accepted");
    ASSERT_EQ(said(stays.chain->launch(stream)), "accepted");
  }
  stays.data.poison(stream);
  ASSERT_EQ(said(stays.chain->launch(stream)), "accepted");
  stays.data.compare(stream);
  ASSERT_EQ(said(stays.chain->finish()), "accepted");
  EXPECT_EQ(stays.data.mismatches(), 0u);
}

/// About half of the device's SMs; none where the driver has no green contexts.
class HalfOfTheSms {
 public:
  HalfOfTheSms() {
    using namespace gpu;
    cudaFree(nullptr);
    auto const resource_of =
        driver_function<decltype(&cuDeviceGetDevResource)>("cuDeviceGetDevResource", 12040);
    auto const split =
        driver_function<decltype(&cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount", 12040);
    auto const describe =
        driver_function<decltype(&cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc", 12040);
    auto const create = driver_function<decltype(&cuGreenCtxCreate)>("cuGreenCtxCreate", 12040);
    auto const as_context = driver_function<decltype(&cuCtxFromGreenCtx)>("cuCtxFromGreenCtx", 12040);
    auto const new_stream =
        driver_function<decltype(&cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate", 12050);
    set_ = driver_function<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent", 4000);
    auto const get = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent", 4000);
    if (!resource_of || !split || !describe || !create || !as_context || !new_stream || !set_ || !get) return;
    CUdevResource all{}, half{}, rest{};
    unsigned groups = 1;
    CUdevResourceDesc desc = nullptr;
    if (resource_of(0, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        split(&half, &groups, &all, &rest, 0, all.sm.smCount / 2) != CUDA_SUCCESS ||
        describe(&desc, &half, 1) != CUDA_SUCCESS ||
        create(&green_, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS ||
        as_context(&context_, green_) != CUDA_SUCCESS ||
        new_stream(&stream_, green_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS ||
        get(&before_) != CUDA_SUCCESS)
      return;
    sms_ = static_cast<int>(half.sm.smCount);
  }
  HalfOfTheSms(HalfOfTheSms const&) = delete;
  HalfOfTheSms& operator=(HalfOfTheSms const&) = delete;
  ~HalfOfTheSms() {
    if (sms_ == 0) return;
    leave();
    cudaStreamDestroy(stream_);
    // The context stays: a stream that the library keeps for this thread is in it.
  }
  int sms() const { return sms_; }
  cudaStream_t stream() const { return stream_; }
  void enter() const { EXPECT_EQ(set_(context_), CUDA_SUCCESS); }
  void leave() const { EXPECT_EQ(set_(before_), CUDA_SUCCESS); }

 private:
  decltype(&cuCtxSetCurrent) set_ = nullptr;
  CUgreenCtx green_ = nullptr;
  CUcontext context_ = nullptr, before_ = nullptr;
  CUstream stream_ = nullptr;
  int sms_ = 0;
};

TEST(Company, AStreamWithHalfOfTheSmsIsRefusedWhereTheProofCountsOnMore) {
  HalfOfTheSms const half;
  if (half.sms() == 0) GTEST_SKIP() << "the driver has no green contexts";
  Waiting chain(100, 1, 61);
  ASSERT_EQ(said(chain.chain), "accepted");
  EXPECT_THAT(said(chain.chain->launch(half.stream())), HasSubstr("E0538: the stream has"));
  Stream stream;
  chain.data.poison(stream);
  ASSERT_EQ(said(chain.chain->launch(stream)), "accepted");
  chain.data.compare(stream);
  ASSERT_EQ(said(chain.chain->finish()), "accepted");
  EXPECT_EQ(chain.data.mismatches(), 0u);
}

TEST(Company, AContextWithHalfOfTheSmsIsProvedWithThese) {
  HalfOfTheSms const half;
  if (half.sms() == 0) GTEST_SKIP() << "the driver has no green contexts";
  half.enter();
  EXPECT_EQ(with_device().value().sms, half.sms());
  {
    Waiting const too_many(half.sms(), 1, 62);
    EXPECT_THAT(said(too_many.chain), HasSubstr("E0514"));
    Waiting fits(half.sms() - 8, 1, 63);
    ASSERT_EQ(said(fits.chain), "accepted");
    fits.data.poison(half.stream());
    ASSERT_EQ(said(fits.chain->launch(half.stream())), "accepted");
    fits.data.compare(half.stream());
    ASSERT_EQ(said(fits.chain->finish()), "accepted");
    EXPECT_EQ(fits.data.mismatches(), 0u);
  }
  half.leave();
}

}  // namespace
}  // namespace tessera
