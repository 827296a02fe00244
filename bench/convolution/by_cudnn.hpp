// SPDX-License-Identifier: Apache-2.0
// The layers of a chain by cuDNN, one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "bench/common/program.hpp"
#include "bench/convolution/operands.hpp"
#include "src/bench/timer.hpp"
#include "src/gpu/device_buffer.hpp"

namespace tessera::bench_convolution {

constexpr double k_cudnn_seconds = 2;
constexpr int k_cudnn_plans = 100;  // more than modes A, B and fallback offer

/// The layers of a chain by cuDNN, each by the fastest of its plans; layers that are alike have one.
class ByCudnn {
 public:
  ByCudnn(Operands const& operands, bench::Timer& timer, cudaStream_t stream) : operands_(operands) {
    std::vector<cudnn::Problem> seen;
    for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
      auto const problem = cudnn::problem_of(operands.chain, l);
      auto const found = std::find(seen.begin(), seen.end(), problem);
      kinds_.push_back(static_cast<std::size_t>(found - seen.begin()));
      if (found != seen.end()) continue;
      seen.push_back(problem);
      best_.push_back(-1);
    }
    for (auto& of_kind : cudnn::Plans::of_all(seen, k_cudnn_plans, k_cudnn_seconds))
      plans_.push_back(std::move(of_kind));
    for (std::size_t kind = 0; kind < plans_.size(); ++kind) choose(kind, timer, stream);
  }

  bool can() const {
    return std::none_of(best_.begin(), best_.end(), [](int plan) { return plan < 0; });
  }
  std::string words() const {
    std::string result;
    for (std::size_t kind = 0; kind < plans_.size(); ++kind)
      result += (kind > 0 ? "; plan " : "plan ") + plans_[kind].name(best_[kind]) + " of " +
                std::to_string(plans_[kind].count()) + " built, " + std::to_string(plans_[kind].offered()) +
                " offered";
    return result;
  }
  cudaError_t run(cudaStream_t stream, int set) const {
    for (std::size_t l = 0; l < kinds_.size(); ++l)
      if (!plans_[kinds_[l]].run(best_[kinds_[l]], operands_.layer(l, set), workspace_.get(), stream))
        return cudaErrorLaunchFailure;
    return cudaSuccess;
  }

 private:
  void choose(std::size_t kind, bench::Timer& timer, cudaStream_t stream) {
    double least = INFINITY;
    for (int plan = 0; plan < plans_[kind].count(); ++plan) {
      auto const all_of_kind = [&](cudaStream_t on, int set) {
        for (std::size_t l = 0; l < kinds_.size(); ++l)
          if (kinds_[l] == kind && !plans_[kind].run(plan, operands_.layer(l, set), workspace_.get(), on))
            return cudaErrorLaunchFailure;
        return cudaSuccess;
      };
      if (all_of_kind(stream, 0) != cudaSuccess) continue;
      bench::check(cudaStreamSynchronize(stream), "cuDNN");
      if (double const us = timer.quick(all_of_kind, 5); us < least) least = us, best_[kind] = plan;
    }
  }

  Operands const& operands_;
  std::vector<std::size_t> kinds_;  ///< of each layer
  std::deque<cudnn::Plans> plans_;
  gpu::DeviceBuffer<char> workspace_{cudnn::Plans::most_workspace};
  std::vector<int> best_;
};

}  // namespace tessera::bench_convolution
