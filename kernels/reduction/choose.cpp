// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config.hpp"

namespace tessera::reduction {
namespace {

/// One step of the menu: up to so many bytes.
struct Step {
  std::size_t bytes;
  Config config;
  int blocks_per_sm = 0;  ///< 0: config.blocks
};

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

// The fastest of `reduction --sweep`, cold and warm together, where one is; between neighbours that differ by
// less than a hundredth the one that leaves more room for a kernel launched programmatically.
Step const steps[] = {
    {4 * KiB, {Variant::one_block, Loads::vector, 32, 8, 1, 1}},
    {16 * KiB, {Variant::one_block, Loads::vector, 128, 8, 1, 1}},
    {32 * KiB, {Variant::one_block, Loads::vector, 256, 8, 1, 1}},
    {64 * KiB, {Variant::one_block, Loads::vector, 512, 8, 1, 1}},
    {512 * KiB, {Variant::data_token, Loads::vector, 128, 8, 64, 1}},
    {2 * MiB, {Variant::data_token, Loads::vector, 256, 4, 128, 1}},
    {4 * MiB, {Variant::data_token, Loads::vector, 256, 8, 256, 1}},
    {64 * MiB, {Variant::data_token, Loads::vector, 256, 8, 0, 1}, 2},
    {256 * MiB, {Variant::data_token, Loads::vector, 512, 8, 0, 1}, 2},
    {~std::size_t{0}, {Variant::data_token, Loads::vector, 256, 8, 0, 1}, 12},
};

}  // namespace

Config choose(Element element, std::size_t count, int sms) {
  // No array is so large; what is left after the multiplication would pass for a small one.
  std::size_t const bytes = count > ~std::size_t{0} / 16 ? ~std::size_t{0} : count * size_of(element);
  Step const& step =
      *std::find_if(std::begin(steps), std::end(steps), [&](Step const& s) { return bytes <= s.bytes; });
  Config config = step.config;
  if (step.blocks_per_sm > 0) config.blocks = step.blocks_per_sm * sms;
  config.blocks = std::min(config.blocks, most_blocks);
  return config;
}

Config with_variant(Config config, Variant variant, int sms) {
  if (config.variant == Variant::one_block) return config;
  config.variant = variant;
  config.cluster = 1;
  // With up to 64 registers a thread; bulk loads take an SM's shared memory.
  int const together = config.loads == Loads::bulk ? sms : sms * std::max(1, 1024 / config.threads);
  if (variant == Variant::grid_barrier) {
    // Its words count arrivals: one of a few numbers of blocks.
    int blocks = sms;
    while (2 * blocks <= std::min({config.blocks, together, 8 * sms})) blocks *= 2;
    config.blocks = blocks;
  } else if (variant == Variant::cooperative) {
    config.blocks = std::min(config.blocks, together);
  } else if (variant == Variant::clusters) {
    config.cluster = config.blocks % 8 == 0 ? 8 : config.blocks % 4 == 0 ? 4 : 1;
  }
  return config;
}

}  // namespace tessera::reduction
