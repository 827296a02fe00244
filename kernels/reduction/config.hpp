// SPDX-License-Identifier: Apache-2.0
// How a sum is worked out, and which way is taken for a size. Pure: needs no GPU.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::reduction {

enum class Element { fp32, fp64, int32 };
constexpr std::size_t size_of(Element element) { return element == Element::fp64 ? 8 : 4; }

/// How the blocks' sums become one. Every variant adds in an order that follows from the size, the alignment
/// of the first element to 16 bytes and the configuration alone: the same bits in every call.
enum class Variant {
  one_block,         ///< nothing to combine
  data_token,        ///< the last block takes every block's sum as soon as the launch's number is in it
  last_block,        ///< whoever is last, by a counter (acquire and release), adds up all
  grid_barrier,      ///< arrive and leave; the last block waits at tessera::GridBarrier and adds up
  clusters,          ///< clusters add up through distributed shared memory, then as data_token
  cooperative,       ///< cooperative groups' grid barrier, for all blocks; block 0 adds up
  two_launches,      ///< stream order
  two_launches_pdl,  ///< the second one launched programmatically
};
constexpr int variants = 8;

enum class Loads {
  vector,  ///< 16 bytes a thread, `unroll` of them in flight
  bulk,    ///< the copy engine fills a ring in shared memory
};

struct Config {
  Variant variant = Variant::data_token;
  Loads loads = Loads::vector;
  int threads = 512;  ///< of a block
  int unroll = 4;     ///< vector loads in flight for a thread; bulk: vectors of a stage for a thread
  int blocks = 1;     ///< in the grid
  int cluster = 1;    ///< blocks of a cluster; clusters only

  bool operator==(Config const&) const = default;
};

/// "data token, 264 blocks of 512, vector loads x4".
std::string to_string(Config const& config);
std::string to_string(Variant variant);

/// Threads and unroll that kernels are compiled for, every variant with each.
struct Shape {
  Loads loads;
  int threads, unroll;
};
std::vector<Shape> const& shapes();

constexpr int most_blocks = 4096;

/// Why this configuration cannot run, as a sentence, nullptr if it can. `resident`: how many of its blocks
/// the GPU holds at once, which matters to the variants that wait for all.
char const* refusal(Config const& config, int resident);

/// The fastest configuration for `count` elements on a GPU with so many SMs: sizes where one way gives place
/// to another were measured on an H200 (results/h200/reduction.json).
Config choose(Element element, std::size_t count, int sms);

/// The same blocks and loads with another way to combine; for comparisons. one_block only where choose()
/// takes it.
Config with_variant(Config config, Variant variant, int sms);

}  // namespace tessera::reduction
