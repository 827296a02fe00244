// SPDX-License-Identifier: Apache-2.0
// A product of 1 to 64 rows by the operation of kernels/few_tokens: all SMs stream the weights, from before
// the kernel in front has ended.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tuple>
#include <vector>

#include "kernels/cublaslt/gemm.hpp"
#include "kernels/few_tokens/chain_plan.hpp"
#include "kernels/few_tokens/product_loop.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::gemm_collectives {

/// Rings that are worth a try for so many rows, the best guess first; none where there is no kernel.
std::vector<few_tokens::MlpChainConfig> few_configs(cublaslt::LtProblem const& problem);

/// A launch of one product on one device. Weights are described to the copy engine by address, so each set of
/// operands has a launch of its own, which is made when it is first asked for and then kept.
class FewProduct {
 public:
  /// `deadline_s`: of a wait in the launch.
  FewProduct(cublaslt::LtProblem const& problem, few_tokens::MlpChainConfig const& config, double deadline_s)
      : problem_(problem), config_(config), deadline_s_(deadline_s) {}

  std::string name() const { return to_string(config_); }
  /// Makes the launch of these operands on the current device, which allocates memory.
  Expected<void> prepare(void const* a, void const* b, void* d);
  /// Enqueues it on the current device. It starts early: what is before it in the stream has to let it, and
  /// must not write `b`.
  Expected<void> run(void const* a, void const* b, void* d, cudaStream_t stream);
  /// Has a wait in a launch given up since the last finish()?
  bool stalled();
  /// Waits for all launches. E0520 with the tile that waited; the next launch works.
  Expected<void> finish();

 private:
  struct Launch {
    few_tokens::ProductStages stages;
    few_tokens::ProductLoop loop;
  };
  using Key = std::tuple<int, void const*, void const*, void*>;

  Expected<Launch> make(void const* a, void const* b, void* d) const;
  /// With the lock.
  Expected<Launch*> find(void const* a, void const* b, void* d);

  cublaslt::LtProblem problem_;
  few_tokens::MlpChainConfig config_;
  double deadline_s_;
  std::mutex mutex_;  // ranks may be threads
  std::map<Key, Launch> kept_;
};

}  // namespace tessera::gemm_collectives
