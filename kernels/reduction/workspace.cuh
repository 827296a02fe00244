// SPDX-License-Identifier: Apache-2.0
// What launches leave to each other and blocks to each other: device memory, zeroed once.
#pragma once

#include <tessera/sync.cuh>
#include <tessera/sync/barrier.cuh>
#include <tessera/sync/data_token.cuh>

#include "config.hpp"
#include "cut.hpp"

namespace tessera::reduction {

/// Launches that share it are in one stream, or ordered by events. Words that different blocks write at the
/// same time are in lines of their own.
struct Workspace {
  /// data_token, clusters: launches so far. Written by the last block when it has every token, so by then
  /// every block has read it.
  alignas(128) unsigned long long launches;
  /// last_block: blocks that have finished, and how many had when this launch began.
  alignas(128) unsigned long long finished;
  alignas(128) unsigned long long finished_before;
  alignas(128) StallRecord stall;
  /// Payload: the sum's 64 bits (of an element of 4 bytes, the upper ones are zero), and the upper half of
  /// the launch's number, whose lower half is the token.
  alignas(128) Packet<3> tokens[most_blocks];
  alignas(128) unsigned long long sums[most_blocks];  ///< an element each, in the lower bytes
  /// grid_barrier: a barrier for 1, 2, 4 and 8 blocks an SM, each always of the same number of blocks.
  alignas(128) unsigned barriers[4][grid_barrier_words(1024 * 2)];
};

struct Arguments {
  Cut x;
  void* out = nullptr;
  Workspace* workspace = nullptr;
  DeadlineWatch<> watch;        ///< a record of the workspace, or of who launches it
  unsigned* barrier = nullptr;  ///< grid_barrier: which of the workspace's
  bool programmatic = false;    ///< the kernel before may still run
  unsigned fetch_bytes = 0;     ///< programmatic: so much goes into the L2 while it waits
};

/// A compiled kernel.
struct Kernel {
  Element element;
  Variant variant;
  Shape shape;
  void const* function;
  int shared_bytes;  ///< dynamic
};

}  // namespace tessera::reduction
