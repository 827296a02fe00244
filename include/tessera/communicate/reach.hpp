// SPDX-License-Identifier: Apache-2.0
// Which GPUs can be a group, and what is said of a rank that did not come. Without a GPU.
#pragma once

#include <functional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

/// Refuses (E0580) devices that are no group: none, more than k_most_ranks, one twice, one that is not there.
Expected<void> check_devices(std::vector<int> const& devices, int present);

/// "GPU 0 does not reach the memory of GPU 3", or nothing. `reaches(from, to)`: a kernel on one can load from
/// and store to the other's memory.
std::string why_apart(std::vector<int> const& devices, std::function<bool(int from, int to)> const& reaches);

/// E0580 for what needs GPUs that reach each other's memory.
Diagnostic needs_reach(std::string const& what, std::string const& why_apart);

/// A rank of several processes, as the others see it.
struct RankPlace {
  std::string host;  ///< of the running system, not its name
  std::string gpu;   ///< unlike all others
};
/// E0580 where two ranks have one GPU.
Expected<void> check_places(std::vector<RankPlace> const& places);
/// "rank 0 and rank 2 are on different hosts", or nothing.
std::string why_apart(std::vector<RankPlace> const& places);

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
/// E0520: `stalled` gave up in a launch before, of which `reader` may read what it did not write. How often
/// that is said, and what to do, in the caller's words.
Diagnostic describe_other_stall(std::string const& stalled, std::string const& reader,
                                std::string const& how_often, std::string const& way_out);

}  // namespace tessera
