// SPDX-License-Identifier: Apache-2.0
// Rows that each rank sends to the others by counts that only the GPU knows: all-to-all. Needs the library
// tessera_communicate_gpu.
#pragma once

#include <tessera/communicate/shards.hpp>

struct CUstream_st;  // cudaStream_t points to one

namespace tessera {

/// What a rank sends. Boxes are numbered over all ranks, `boxes` to each of them; a rank's rows lie one
/// behind the other, those for box 0 first. 16-byte aligned.
struct RowExchange {
  void const* rows = nullptr;
  int const* counts = nullptr;     ///< [ranks * boxes] rows for each box, on this GPU
  void* slots[k_most_ranks] = {};  ///< [boxes][sources][capacity] rows, of each rank
  int* come[k_most_ranks] = {};    ///< [boxes][sources]: how many there are
  int* most = nullptr;             ///< raised to the largest count that was ever sent
  int ranks = 1;
  int boxes = 1;      ///< of a rank
  int sources = 1;    ///< that a box has slots for
  int source = 0;     ///< which of them is this rank's
  int capacity = 0;   ///< rows of a slot: what is more is not sent
  int row_bytes = 0;  ///< a multiple of 16
};

// They return CUDA's error.

/// On the rank's GPU, which is current. Waits for nobody: whose slots may be written, and when they may be
/// read, others say (transfers.hpp). May be captured.
int send_rows(RowExchange const& exchange, CUstream_st* stream);

/// Loads the kernel on the current device: behind one that spins it would never start.
int load_row_exchange();

}  // namespace tessera
