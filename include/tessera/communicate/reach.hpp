// SPDX-License-Identifier: Apache-2.0
// Which GPUs can be a group, and what is said of a rank that did not come. Without a GPU.
#pragma once

#include <functional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

/// Refuses (E0580) devices that are no group: none, more than k_most_ranks, one twice, one that is not there,
/// or two that do not reach each other's memory. `reaches(from, to)`: a kernel on one can load from and store
/// to the other's memory.
Expected<void> check_reach(std::vector<int> const& devices, int present,
                           std::function<bool(int from, int to)> const& reaches);

/// A wait for a peer that met its deadline.
struct PeerStall {
  std::string operation;  ///< "gemm_all_reduce of 8 x 8192 x 4096"
  int rank = 0;           ///< that waited
  int peer = 0;           ///< that did not come
  std::string awaited;    ///< "its partial sums"
  long long tile = 0;     ///< the part of them
  long long tiles = 1;
  unsigned seen = 0;  ///< launches of the peer
  unsigned expected = 0;
  double waited_s = 0;
};

/// E0582.
Diagnostic describe_stall(PeerStall const& stall);

}  // namespace tessera
