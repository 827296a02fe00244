// SPDX-License-Identifier: Apache-2.0
// What a way of a product with its collective should take, without a GPU: its products, copies and sums as
// they follow each other on a rank's SMs and its copy engine. All ranks do the same at the same time.
#pragma once

#include <functional>
#include <optional>

#include "kernels/gemm_collectives/library_times.hpp"
#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

/// Of a machine whose GPUs each have one link to all others.
struct WayFigures {
  double link_gbps = 0;  ///< out of a GPU, to all others together
  double hop_us = 0;     ///< a word with its release, until the peer has seen it
  double copy_us = 0;    ///< a copy of nothing to a peer
  double dram_gbps = 0;
  double launch_us = 0;        ///< from a kernel's end to the next one's begin
  double early_launch_us = 0;  ///< the same where it starts early
  int sms = 132;
  LibraryTimes const* library = nullptr;  ///< of collectives alone
};

/// Two H200, and eight: their links go to a switch. docs/design/notes-peers.md says where each comes from.
WayFigures h200_figures();

/// A product alone, with its launch.
using ProductPrice = std::function<double(int rows, int columns, int depth)>;

/// What computes the parts of a shard, for Way::add.
enum class PartKernel {
  own,       ///< the one that is best for so many rows
  of_shard,  ///< a whole shard's: as many of its waves as the part's tiles take
};

/// Microseconds. Not of the automatic way: ways_of() says which there are; of Way::sequential where the
/// library has times. `parts` and `part_kernel` are for Way::add.
std::optional<double> price_of(Problem const& problem, Way way, int parts, WayFigures const& figures,
                               ProductPrice const& product_us, PartKernel part_kernel = PartKernel::own);

}  // namespace tessera::gemm_collectives
