// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config.hpp"

namespace tessera::reduction {
namespace {

/// One step of the menu: up to so many bytes.
struct Step {
  std::size_t bytes;
  Config
      config;  ///< `blocks`: for each SM; 0: as many as give every thread one vector, up to one for each SM
};

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

Step const steps[] = {
    {4 * KiB, {Variant::one_block, Loads::vector, 32, 8, 0, 1}},
    {16 * KiB, {Variant::one_block, Loads::vector, 256, 4, 0, 1}},
    {32 * KiB, {Variant::one_block, Loads::vector, 1024, 2, 0, 1}},
    {2 * MiB, {Variant::data_token, Loads::vector, 512, 4, 0, 1}},
    {~std::size_t{0}, {Variant::data_token, Loads::vector, 512, 8, 2, 1}},
};

}  // namespace

Config choose(Element element, std::size_t count, int sms) {
  // No array is so large; what is left after the multiplication would pass for a small one.
  std::size_t const bytes = count > ~std::size_t{0} / 16 ? ~std::size_t{0} : count * size_of(element);
  Step const& step =
      *std::find_if(std::begin(steps), std::end(steps), [&](Step const& s) { return bytes <= s.bytes; });
  Config config = step.config;
  if (config.variant == Variant::one_block) {
    config.blocks = 1;
  } else if (config.blocks == 0) {
    std::size_t const block = static_cast<std::size_t>(config.threads) * 16;
    config.blocks = static_cast<int>(
        std::clamp<std::size_t>((bytes + block - 1) / block, 1, static_cast<std::size_t>(sms)));
  } else {
    config.blocks *= sms;
  }
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
    // Its words count arrivals: always the same number of blocks.
    config.blocks = together;
  } else if (variant == Variant::cooperative) {
    config.blocks = std::min(config.blocks, together);
  } else if (variant == Variant::clusters) {
    config.cluster = config.blocks % 8 == 0 ? 8 : config.blocks % 4 == 0 ? 4 : 1;
  }
  return config;
}

}  // namespace tessera::reduction
