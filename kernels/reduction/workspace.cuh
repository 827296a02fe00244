// SPDX-License-Identifier: Apache-2.0
// What launches leave to each other and blocks to each other: device memory, zeroed once.
#pragma once

#include <tessera/sync.cuh>
#include <tessera/sync/barrier.cuh>
#include <tessera/sync/data_token.cuh>

#include "config.hpp"

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
  /// grid_barrier: a row for 128, 256, 512 and 1024 threads, each always of the same number of blocks.
  alignas(128) unsigned arrived[4][most_blocks];
};

struct Arguments {
  void const* x = nullptr;
  std::size_t count = 0;
  void* out = nullptr;
  Workspace* workspace = nullptr;
  unsigned long long deadline_ns = 0;
  bool programmatic = false;  ///< the kernel before may still run
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
