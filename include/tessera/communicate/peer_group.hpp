// SPDX-License-Identifier: Apache-2.0
// GPUs of one host that read and write each other's memory, all of this process. Needs the library
// tessera_communicate_gpu, which is built where the CUDA toolkit is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <tessera/communicate/shards.hpp>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

namespace gpu {
class Nccl;
class PeerOrder;
}  // namespace gpu

/// Rank n is the n-th device. Its memory is reached by every rank.
///
/// Products of a group are kept apart, whatever their streams: on each GPU one begins when the one before has
/// ended, in the order in which they were enqueued, which is the same on all GPUs where one call enqueues for
/// all ranks. Who enqueues rank by rank keeps the same order of all products on all ranks. What a capture
/// holds is ordered within the capture alone. Let a graph run beside no other graph or call of the group, nor
/// of a group with a GPU in common: they can wait for each other until the deadline.
class PeerGroup {
 public:
  /// E0580 where the devices are no group, E0511 where CUDA fails. Switches peer access on, for good.
  static Expected<std::shared_ptr<PeerGroup>> make(std::vector<int> devices);
  ~PeerGroup();
  PeerGroup(PeerGroup const&) = delete;
  PeerGroup& operator=(PeerGroup const&) = delete;

  int size() const { return static_cast<int>(devices_.size()); }
  int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }

  /// Waits for all GPUs. E0511.
  Expected<void> wait() const;

  /// NCCL among the same GPUs, opened at the first call, which takes seconds; null, with the reason, where
  /// there is none.
  gpu::Nccl const* nccl(std::string& why) const;

  /// For who enqueues what waits for peers (src/gpu/peer_order.hpp).
  gpu::PeerOrder& order() const { return *order_; }

 private:
  struct Library;
  explicit PeerGroup(std::vector<int> devices);
  std::vector<int> devices_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<gpu::PeerOrder> order_;
};

/// As many bytes on each rank's GPU, zeros from the start. Frees itself.
class PeerMemory {
 public:
  /// E0511.
  static Expected<PeerMemory> make(std::shared_ptr<PeerGroup const> group, std::size_t bytes);
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept = default;
  PeerMemory& operator=(PeerMemory&&) = delete;

  void* at(int rank) const { return memory_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return bytes_; }
  /// Zeros again. Nothing may be running that uses it.
  Expected<void> clear() const;

 private:
  PeerMemory() = default;
  std::shared_ptr<PeerGroup const> group_;
  std::vector<void*> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace tessera
