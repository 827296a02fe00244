// SPDX-License-Identifier: Apache-2.0
// Chains that go wrong when a test wants it, and graphs of them that the library does not see.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "run_gpu/device_data.hpp"
#include "support/assert_ok.hpp"
#include "support/plans.hpp"
#include "support/real_clock.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/run/launch.hpp"

namespace tessera {

/// Of a call.
template <class T>
std::string said(Expected<T> const& outcome) {
  return outcome ? "accepted" : to_text(outcome.error());
}

/// A chain of which one post is missing, or the third kernel is refused or throws, as long as the test likes.
struct Faulty {
  enum class Fault { none, unposted, refused, thrown };
  std::shared_ptr<Fault> fault = std::make_shared<Fault>(Fault::none);
  Plan plan;
  vector_chain::DeviceData data;
  Expected<Chain> chain;

  explicit Faulty(Mechanism mechanism, double deadline_seconds = 0.05, StallGroup* stalls = nullptr)
      : plan(support::make_plan(vector_chain::pipeline(3, 24, 20, 1), machine("h200").value(), mechanism,
                                support::Policy::row_sync)),
        data(plan.pipeline, 41),
        chain(make(deadline_seconds, stalls)) {}

  Expected<Chain> make(double deadline_seconds, StallGroup* stalls) {
    auto kernels = vector_chain::kernels(plan, data.buffers(), vector_chain::Kind::watched);
    auto const unposted = vector_chain::kernels(plan, data.buffers(), vector_chain::Kind::watched, 5);
    kernels.front().pack = [f = fault, whole = kernels.front().pack, less = unposted.front().pack](
                               ChainViews const& views, KernelArguments& arguments) {
      (*f == Fault::unposted ? less : whole)(views, arguments);
    };
    kernels.back().pack = [f = fault, whole = kernels.back().pack](ChainViews const& views,
                                                                   KernelArguments& arguments) {
      if (*f == Fault::thrown) throw std::runtime_error("pack throws");
      whole(views, arguments);
      for (int i = 0; i < 64 && *f == Fault::refused; ++i) arguments.add(i);
    };
    ChainOptions o;
    o.deadline_seconds = deadline_seconds;
    o.dispatches_in_launch_order = true;
    o.token_bytes = 4096;
    o.stalls_with = stalls;
    return Chain::make(plan, kernels, o);
  }

  void expect_right(cudaStream_t stream) {
    *fault = Fault::none;
    for (int i = 0; i < 3; ++i) {
      data.poison(stream);
      ASSERT_OK(chain->launch(stream));
      data.compare(stream);
    }
    ASSERT_OK(chain->finish());
    ASSERT_EQ(data.mismatches(), 0u);
  }
};

inline bool comes_to_stall(Chain const& chain) {
  return support::comes_true([&] { return chain.stalled(); });
}

/// A launch in a graph of the caller's, who replays it without asking the library.
struct OwnGraph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Expected<void> launched;
  cudaError_t ended = cudaSuccess;

  OwnGraph(Chain& chain, cudaStream_t stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launched = chain.launch(stream);
    ended = cudaStreamEndCapture(stream, &graph);
    if (ended == cudaSuccess) {
      EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    }
  }
  ~OwnGraph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
    (void)cudaGetLastError();
  }
};

}  // namespace tessera
