// SPDX-License-Identifier: Apache-2.0
// GPUs that read and write each other's memory: of this process, or a GPU for each of several processes.
// Needs the library tessera_communicate_gpu, which is built where the CUDA toolkit is.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tessera/communicate/shards.hpp>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

class Descriptors;
class Meeting;

namespace gpu {
class Nccl;
class PeerOrder;
}  // namespace gpu

struct PeerGroupOptions {
  bool peer_access = true;  ///< false: as if no GPU reached another's memory
};

/// Rank n is the n-th device, or that of the n-th process. Its memory is reached by every rank, or the group
/// is apart() and knows NCCL alone.
///
/// A group of several processes makes things together: where a comment says "a call of all ranks", every rank
/// makes it, in the same order. What goes wrong on one is said on all (E0586), and a rank that is gone, or
/// does not come, ends the group.
///
/// Products of a group are kept apart, whatever their streams: on each GPU one begins when the one before has
/// ended, in the order in which they were enqueued, which is the same on all GPUs where one call enqueues for
/// all ranks. Who enqueues rank by rank keeps the same order of all products on all ranks. What a capture
/// holds is ordered within the capture alone. Let a graph run beside no other graph or call of the group, nor
/// of a group with a GPU in common: they can wait for each other until the deadline.
class PeerGroup {
 public:
  /// All ranks are of this process. E0580 where the devices are no group, E0511 where CUDA fails. Switches
  /// peer access on, for good.
  static Expected<std::shared_ptr<PeerGroup>> make(std::vector<int> devices,
                                                   PeerGroupOptions const& options = {});
  /// A call of all ranks, each with its device. E0580, E0586, E0511.
  static Expected<std::shared_ptr<PeerGroup>> join(std::shared_ptr<Meeting> meeting, int device,
                                                   PeerGroupOptions const& options = {});
  ~PeerGroup();
  PeerGroup(PeerGroup const&) = delete;
  PeerGroup& operator=(PeerGroup const&) = delete;

  int size() const { return static_cast<int>(devices_.size()); }
  /// -1: of another process.
  int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  bool has(int rank) const { return device(rank) >= 0; }
  /// Ranks of this process.
  std::vector<int> const& here() const { return here_; }
  bool of_processes() const { return meeting_ != nullptr; }
  /// Why they do not reach each other's memory; empty: they do.
  std::string const& apart() const { return apart_; }

  /// Waits for all GPUs of this process. E0511.
  Expected<void> wait() const;

  /// NCCL among the same GPUs, opened at the first call, which takes seconds and is one of all ranks; null,
  /// with the reason, where there is none.
  gpu::Nccl const* nccl(std::string& why) const;
  /// Ends what NCCL has launched, and NCCL, where a peer is gone.
  void end_nccl() const;

  // Of several processes.

  /// What each rank says: Meeting::exchange(). Of one process: what this one says, for each rank.
  Expected<std::vector<std::string>> exchange(std::string const& what, std::string const& bytes = "",
                                              double deadline_seconds = 0) const;
  /// Whether the group has ended: E0586.
  std::optional<Diagnostic> lost() const;
  /// Ends the group on all ranks.
  void give_up(Diagnostic const& why) const;
  Descriptors* descriptors() const { return descriptors_.get(); }

  /// For who enqueues what waits for peers (src/gpu/peer_order.hpp).
  gpu::PeerOrder& order() const { return *order_; }

 private:
  struct Library;
  explicit PeerGroup(std::vector<int> devices);
  std::vector<int> devices_, here_;
  std::shared_ptr<Meeting> meeting_;
  std::unique_ptr<Descriptors> descriptors_;
  std::string apart_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<gpu::PeerOrder> order_;
};

enum class Reached {
  by_all,       ///< of a group that is not apart
  by_its_rank,  ///< other processes know nothing of it
};

/// As many bytes on each rank's GPU, zeros from the start. Frees itself; what a peer still writes to is freed
/// when that one has freed it, too.
class PeerMemory {
 public:
  /// E0511; with Reached::by_all a call of all ranks, and E0586.
  static Expected<PeerMemory> make(std::shared_ptr<PeerGroup const> group, std::size_t bytes,
                                   Reached reached = Reached::by_all);
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept;
  PeerMemory& operator=(PeerMemory&&) = delete;

  /// Where this process sees it; null: it does not.
  void* at(int rank) const { return memory_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return bytes_; }
  /// Zeros again, on the GPUs of this process. Nothing may be running that uses it.
  Expected<void> clear() const;

 private:
  struct Mapped;
  PeerMemory();
  static Expected<PeerMemory> make_mapped(std::shared_ptr<PeerGroup const> group, std::size_t bytes);
  std::shared_ptr<PeerGroup const> group_;
  std::vector<void*> memory_;
  std::unique_ptr<Mapped> mapped_;  ///< of several processes
  std::size_t bytes_ = 0;
};

}  // namespace tessera
