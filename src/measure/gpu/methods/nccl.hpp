// SPDX-License-Identifier: Apache-2.0
// The little of NCCL that the probe needs, found when it runs: a build needs neither its header nor its
// library. The declarations are those of nccl.h, unchanged since version 2.0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "team.hpp"

namespace tessera::probe {

/// Communicators of a team, one a GPU.
class Nccl {
 public:
  /// Null, with the reason in `why`, if there is no libnccl.so.2 that the system's linker finds.
  static std::unique_ptr<Nccl> open(Team const& team, std::string& why);
  ~Nccl();
  Nccl(Nccl const&) = delete;
  Nccl& operator=(Nccl const&) = delete;

  /// Sum over all ranks, on the rank's stream. Every rank calls it, from a thread of its own or between
  /// group_begin() and group_end(). Throws with NCCL's own words.
  void all_reduce(int rank, double const* from, double* to, std::size_t count, cudaStream_t stream) const;
  void group_begin() const;
  void group_end() const;

  /// As NCCL writes it: 22809 for 2.28.9.
  int version() const { return version_; }

 private:
  struct Calls;
  Nccl() = default;
  std::unique_ptr<Calls> calls_;
  std::vector<void*> ranks_;
  int version_ = 0;
};

}  // namespace tessera::probe
