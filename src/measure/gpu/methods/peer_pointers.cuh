// SPDX-License-Identifier: Apache-2.0
// Everybody's buffers, as a kernel takes them.
#pragma once

#include "team.hpp"

namespace tessera::probe {

constexpr int k_most_gpus = 16;

/// One pointer for each rank of a team, by value.
template <class T>
struct PeerPointers {
  T* at[k_most_gpus] = {};
  int count = 0;
};

/// Precondition: at most k_most_gpus ranks.
template <class T>
PeerPointers<T> pointers(TeamBuffer<T> const& buffer, int count) {
  PeerPointers<T> result;
  result.count = count;
  for (int rank = 0; rank < count; ++rank) result.at[rank] = buffer.at(rank);
  return result;
}

}  // namespace tessera::probe
