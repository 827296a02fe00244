// SPDX-License-Identifier: Apache-2.0
// A flow on one GPU, or one that several share, as the tool takes either.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/slab.hpp"
#include "kernels/lattice_boltzmann/slab_flow.hpp"
#include "src/gpu/device_buffer.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::lattice_boltzmann {

class SomeFlow {
 public:
  static Expected<SomeFlow> make(Problem const& problem, Options const& options, int gpus) {
    SomeFlow result;
    std::vector<int> devices(static_cast<std::size_t>(gpus));
    std::iota(devices.begin(), devices.end(), 0);
    result.devices_ = devices;
    result.problem_ = problem;
    if (gpus > 1) {
      auto group = PeerGroup::make(devices);
      if (!group) return tl::make_unexpected(group.error());
      result.group_ = *group;
    }
    // Before the flow, which takes what it finds free.
    for (int rank = 0; rank < gpus; ++rank) {
      gpu::Select const current(devices[static_cast<std::size_t>(rank)]);
      auto const planes = planes_of(problem.depth, gpus, rank).rows();
      result.streams_.push_back(std::make_unique<gpu::Stream>());
      result.buffers_.push_back(std::make_unique<gpu::DeviceBuffer<float>>(
          static_cast<std::size_t>(1LL * problem.width * problem.height * planes)));
    }
    if (gpus == 1) {
      auto made = LatticeBoltzmann::make(problem, options);
      if (!made) return tl::make_unexpected(made.error());
      result.predicted_ns_ = made->choice().ns_per_step;
      result.why_ = to_string(made->choice().variant) + ": " + made->choice().reason;
      result.one_ = std::move(*made);
    } else {
      auto made = SlabFlow::make(result.group_, problem);
      if (!made) return tl::make_unexpected(made.error());
      bool const measured = options.machine.dram_gbps > 0 && options.machine.clock_ghz > 0;
      result.predicted_ns_ = measured ? slabs_ns(problem, gpus, options.machine) : 0;
      result.why_ =
          fmt::format("two_lattices on each of {} GPUs, {} planes of z and more", gpus, problem.depth / gpus);
      result.slabs_ = std::move(*made);
    }
    return result;
  }

  Problem const& problem() const { return problem_; }
  /// The variant, and why.
  std::string const& why() const { return why_; }
  double predicted_ns() const { return predicted_ns_; }
  /// Of the first GPU, whose device is current.
  cudaStream_t stream() const { return streams_.front()->get(); }

  Expected<void> run(long long steps) {
    if (one_) return one_->run(stream(), steps);
    std::vector<cudaStream_t> all;
    for (auto const& one : streams_) all.push_back(one->get());
    return slabs_->run(all, steps);
  }
  Expected<void> finish() { return one_ ? one_->finish() : slabs_->finish(); }

  Expected<Flow<float>> read() {
    Flow<float> result;
    for (int component = -1; component < 3; ++component)
      for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
        gpu::Select const current(devices_[rank]);
        FlowFields fields;
        (component < 0 ? fields.density : fields.velocity[component]) = buffers_[rank]->get();
        auto const at = static_cast<int>(rank);
        auto const on = streams_[rank]->get();
        if (auto ok = one_ ? one_->write(on, fields) : slabs_->write(at, on, fields); !ok)
          return tl::make_unexpected(ok.error());
        auto const some = buffers_[rank]->download();
        auto& to = component < 0 ? result.density : result.velocity[component];
        to.insert(to.end(), some.begin(), some.end());
      }
    return result;
  }

 private:
  Problem problem_;
  std::string why_;
  double predicted_ns_ = 0;
  std::shared_ptr<PeerGroup> group_;
  std::optional<LatticeBoltzmann> one_;
  std::optional<SlabFlow> slabs_;
  std::vector<int> devices_;
  std::vector<std::unique_ptr<gpu::Stream>> streams_;
  std::vector<std::unique_ptr<gpu::DeviceBuffer<float>>> buffers_;
};

}  // namespace tessera::lattice_boltzmann
