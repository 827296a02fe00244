// SPDX-License-Identifier: Apache-2.0
#include "wire.hpp"

#include <tessera/communicate/shards.hpp>
#include <tessera/measure/statistics.hpp>

#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {

double measured_link_gbps(std::shared_ptr<PeerGroup> const& group, Gang& gang) {
  constexpr std::size_t k_bytes = 64u << 20;
  constexpr int k_calls = 4, k_rounds = 5;
  auto const from = must(PeerMemory::make(group, k_bytes)), into = must(PeerMemory::make(group, k_bytes));
  GangTimed copies{"copies", [&](std::vector<cudaStream_t> const& streams, int) -> Expected<void> {
                     for (std::size_t at = 0; at < streams.size(); ++at) {
                       int const rank = static_cast<int>(at);
                       gpu::Select const current(group->device(rank));
                       gpu::ok(cudaMemcpyAsync(into.at(send_order(group->size(), rank, 0)), from.at(rank),
                                               k_bytes, cudaMemcpyDefault, streams[at]));
                     }
                     return {};
                   }};
  gang.capture(copies, k_calls, 1);
  gang.rounds({&copies}, k_rounds, k_calls);
  Gang::release(copies);
  constexpr double k_gb_per_us = 1e-3;  // bytes in a microsecond, in GB/s
  return static_cast<double>(k_bytes) / median(copies.us) * k_gb_per_us;
}

}  // namespace tessera::gemm_collectives
