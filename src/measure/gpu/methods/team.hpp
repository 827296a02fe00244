// SPDX-License-Identifier: Apache-2.0
// GPUs of one host that read and write each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "device.hpp"

namespace tessera::probe {

/// Device numbers of at most k_most_gpus GPUs that all reach each other, device 0 among them: {0} where there
/// is only one.
std::vector<int> reachable_gpus();

/// GPUs numbered by rank, each with a stream, with access to each other's memory switched on. Leaves device 0
/// current.
///
/// Kernels that wait for each other are loaded first (preload), then launched on all GPUs before any call of
/// the host that blocks.
class Team {
 public:
  /// Precondition: the devices reach each other.
  explicit Team(std::vector<int> devices);
  ~Team();
  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  int size() const { return static_cast<int>(devices_.size()); }
  cudaStream_t stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]; }
  int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  /// Makes the rank's GPU the calling thread's current one.
  void select(int rank) const { ok(cudaSetDevice(device(rank))); }

  /// Calls `act(rank)` for each rank, with its GPU current.
  template <class Act>
  void each(Act act) const {
    for (int rank = 0; rank < size(); ++rank) {
      select(rank);
      act(rank);
    }
    select(0);
  }

  /// Until all streams are empty.
  void wait() const {
    for (auto stream : streams_) ok(cudaStreamSynchronize(stream));
  }

  /// Loads the kernel on every GPU: with lazy loading, a first launch would wait for a kernel that spins.
  template <class Kernel>
  void preload(Kernel* kernel) const {
    each([&](int) {
      cudaFuncAttributes attributes;
      ok(cudaFuncGetAttributes(&attributes, kernel));
    });
  }

 private:
  std::vector<int> devices_;
  std::vector<cudaStream_t> streams_;
};

/// As many elements on each GPU of a team, that all of them reach. Zeros from the start.
template <class T>
class TeamBuffer {
 public:
  TeamBuffer(Team const& team, std::size_t size) : team_(&team) {
    team.each([&](int) { buffers_.push_back(std::make_unique<DeviceBuffer<T>>(size)); });
  }
  T* at(int rank) const { return buffers_[static_cast<std::size_t>(rank)]->get(); }
  std::size_t size() const { return buffers_.front()->size(); }
  /// Zeros again, on each GPU's stream.
  void clear() const {
    team_->each([&](int rank) { buffers_[static_cast<std::size_t>(rank)]->fill(team_->stream(rank), 0); });
  }
  /// Waits for that rank's GPU.
  std::vector<T> download(int rank) const {
    team_->select(rank);
    auto values = buffers_[static_cast<std::size_t>(rank)]->download();
    team_->select(0);
    return values;
  }

 private:
  Team const* team_;
  std::vector<std::unique_ptr<DeviceBuffer<T>>> buffers_;
};

}  // namespace tessera::probe
