// SPDX-License-Identifier: Apache-2.0
// Chains that stall together: those that share memory beside their own. Most chains are alone in theirs.
#pragma once

#include <string>
#include <vector>

#include "gpu/told_flag.hpp"
#include "tessera/run/chain.hpp"

namespace tessera {

/// Its members are called by one thread at a time. Deletes itself when its last member is removed and nobody
/// keeps it.
class StallGroup {
 public:
  /// `kept`: until release(). E0511.
  static Expected<StallGroup*> make(bool kept);
  void release();

  void add(Chain::State* chain);
  void remove(Chain::State* chain);

  /// Has a wait of a member given up since the last recovery? One load of host memory.
  bool told() const { return flag_.raised(); }
  /// This thread launches a member: until somebody has said that it has stalled, other launches of the thread
  /// are refused. `captured`: into a graph of the caller's.
  void launched(bool captured = false) { flag_.launched(captured); }
  /// E0520: something else that this thread has launched has stalled, of whatever kind; what is asked for
  /// next may read what it should have written. Once, or until that was asked itself if it is in a graph.
  /// `called`: what was asked for.
  Expected<void> nothing_else_stalled(std::string const& called) const;
  unsigned* address() const { return flag_.address(); }
  /// A member's kernels never end: they may still raise the flag.
  void leak() { flag_.leak(); }

  /// Waits for all members' launches and makes the memory of all as it was at the start, since half a launch
  /// of one has counted in what others use. Then refuses with what waits gave up (E0520), if any did. E0521
  /// if a launch does not end: then nothing was touched.
  Expected<void> recover();
  /// A member's launch was enqueued in part.
  void spoil() { ++restarts_; }
  /// How often the memory was made as it was at the start after a stall, or is to be since a launch was
  /// enqueued in part. What several launches compute together is lost when it has changed.
  unsigned restarts() const { return restarts_; }

 private:
  explicit StallGroup(bool kept) : kept_(kept) {}
  ~StallGroup() = default;

  bool kept_;
  unsigned restarts_ = 0;
  gpu::ToldFlag flag_;
  std::vector<Chain::State*> members_;
};

}  // namespace tessera
