// SPDX-License-Identifier: Apache-2.0
#include "company.hpp"

#include <cuda_runtime_api.h>

#include "or_stop.hpp"
#include "run_gpu/vector_chain.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera::run_bench {
namespace {

/// Fewer than the queue holds: a launch that waits for the GPU is not what is measured.
constexpr int k_replays = 200;

/// Two stages of 32 tiles: there are SMs for both, and for those that wait.
struct Arm {
  Plan plan;
  vector_chain::Buffers buffers;

  explicit Arm(Mechanism mechanism)
      : plan(support::make_plan(vector_chain::pipeline(2, 32, 1, 1), or_stop(machine("h200")), mechanism,
                                support::Policy::row_sync,
                                {false, mechanism == Mechanism::wait_kernel, false})) {
    auto const bytes = static_cast<std::size_t>(plan.pipeline.stages[0].tiles()) * vector_chain::k_width * 4;
    std::uint32_t* x = nullptr;
    or_stop(cudaMalloc(reinterpret_cast<void**>(&x), bytes));
    or_stop(cudaMemset(x, 0x37, bytes));
    buffers.x = x;
    for (auto& out : buffers.out) or_stop(cudaMalloc(reinterpret_cast<void**>(&out), bytes));
  }
  Chain chain() const {
    return or_stop(Chain::make(plan, vector_chain::kernels(plan, buffers, vector_chain::Kind::watched)));
  }
};

double sample_us(Chain& chain, ChainGraph& graph, cudaStream_t stream) {
  double const us = host_us([&] {
    for (int i = 0; i < k_replays; ++i) or_stop(graph.launch(stream));
  });
  or_stop(chain.finish());
  return us / k_replays;
}

}  // namespace

std::vector<Company> measure_company(int rounds) {
  cudaStream_t stream{};
  or_stop(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Arm const arms[] = {Arm(Mechanism::pdl), Arm(Mechanism::wait_kernel)};
  std::vector<Company> found = {{"PDL, counts no SMs", {}, {}},
                                {"two streams without a wait kernel, counts SMs", {}, {}}};
  for (std::size_t a = 0; a < found.size(); ++a) {
    auto chain = arms[a].chain();
    auto graph = or_stop(chain.capture());
    for (int round = -2; round < rounds; ++round) {
      double const alone = sample_us(chain, graph, stream);
      std::vector<Chain> others;
      for (int i = 0; i < k_others; ++i) others.push_back(arms[a].chain());
      double const beside = sample_us(chain, graph, stream);
      if (round < 0) continue;
      found[a].alone_us.push_back(alone);
      found[a].beside_us.push_back(beside);
    }
  }
  or_stop(cudaStreamDestroy(stream));
  return found;
}

}  // namespace tessera::run_bench
