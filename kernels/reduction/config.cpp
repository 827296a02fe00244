// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <algorithm>

namespace tessera::reduction {

std::string to_string(Variant variant) {
  switch (variant) {
    case Variant::one_block: return "one block";
    case Variant::data_token: return "data token";
    case Variant::last_block: return "last block";
    case Variant::grid_barrier: return "grid barrier";
    case Variant::clusters: return "clusters";
    case Variant::cooperative: return "cooperative groups";
    case Variant::two_launches: return "two launches";
    case Variant::two_launches_pdl: return "two launches, PDL";
  }
  return "?";
}

std::string to_string(Config const& config) {
  std::string text = to_string(config.variant) + ", " + std::to_string(config.blocks) + " blocks of " +
                     std::to_string(config.threads);
  if (config.cluster > 1) text += " in clusters of " + std::to_string(config.cluster);
  return text + (config.loads == Loads::bulk ? ", bulk copies x" : ", vector loads x") +
         std::to_string(config.unroll);
}

std::vector<Shape> const& shapes() {
  static std::vector<Shape> const all = {
      {Loads::vector, 32, 8},   {Loads::vector, 128, 8}, {Loads::vector, 256, 4},  {Loads::vector, 256, 8},
      {Loads::vector, 512, 4},  {Loads::vector, 512, 8}, {Loads::vector, 1024, 2}, {Loads::vector, 1024, 4},
      {Loads::vector, 1024, 8}, {Loads::bulk, 256, 4},   {Loads::bulk, 512, 2}};
  return all;
}

char const* refusal(Config const& config, int resident) {
  auto const is = [&](Shape const& s) {
    return s.loads == config.loads && s.threads == config.threads && s.unroll == config.unroll;
  };
  if (std::none_of(shapes().begin(), shapes().end(), is))
    return "no kernel is compiled for these threads and loads";
  if (config.blocks < 1) return "a grid has at least one block";
  if (config.blocks > most_blocks) return "the workspace has no room for the sums of so many blocks";
  if (config.variant == Variant::one_block)
    return config.blocks == 1 ? nullptr : "one block is not several blocks";
  if (config.threads < 128) return "blocks of 32 threads are compiled for one block only";
  if (config.cluster < 1 || config.cluster > 8) return "a cluster has 1 to 8 blocks";
  if (config.cluster != 1 && config.variant != Variant::clusters) return "only clusters has clusters";
  if (config.blocks % config.cluster != 0) return "the clusters do not divide the blocks";
  bool const waits_for_all =
      config.variant == Variant::grid_barrier || config.variant == Variant::cooperative;
  if (waits_for_all && config.blocks > resident) return "the GPU does not hold all blocks at once";
  return nullptr;
}

}  // namespace tessera::reduction
