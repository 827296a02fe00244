// SPDX-License-Identifier: Apache-2.0
// A product of few rows and its all-reduce in one launch: blocks stream the weights, and send what they have
// summed as packets with tokens, straight from their end.
#pragma once

#include <cstddef>
#include <tessera/communicate/transfers.hpp>

#include "kernels/gemm_collectives/fused_plan.hpp"

namespace tessera::gemm_collectives {

/// d = a * b^T of this rank's depth, summed over the ranks. 16-byte aligned; depth and columns are multiples
/// of eight.
struct FusedProduct {
  void const* a = nullptr;  ///< [rows][depth]
  void const* b = nullptr;  ///< [columns][depth], read before what is in front of the launch is complete
  void* d = nullptr;        ///< [rows][columns]
  int rows = 0, columns = 0, depth = 0;
  void* packets[k_most_ranks] = {};  ///< fused_packet_bytes() in each rank's memory, zeroed once
  HalfType type = HalfType::bf16;
};

std::size_t fused_packet_bytes(int rows, int columns, int ranks);

// They return CUDA's error. `stream` is of the rank's device, which is current. May be captured.

/// Loads the kernels on the current device: behind one that spins they would never start.
int load_fused();

/// Starts when the kernel before lets it, and waits for that one's end itself. Sums are rounded on each rank
/// and added in fp32 in the order of ranks: the same bits everywhere. Needs no blocks beside each other: each
/// sends before it waits, and waits for the same block of the peers alone.
int fused_all_reduce(PeerOperation const& operation, FusedProduct const& product, CUstream_st* stream);

}  // namespace tessera::gemm_collectives
