// SPDX-License-Identifier: Apache-2.0
// What a tuner may try. The order is that of the measurements in docs/design/notes-skinny.md.
#include <algorithm>

#include "skinny.hpp"

namespace tessera::skinny_sm90 {
namespace {

constexpr int usual_processors = 132;

/// Tiles of a GEMM so that a unit's rows fit the warpgroups, as few as can be.
int tiles_for(int rows, Config const& config) {
  int const each = rows / (usual_processors / config.cluster);
  return std::min(config.tiles, each / (config.warpgroups * 64) + 1);
}

Config base(mlp::Shape const& shape, int token_tile, int cluster, int warpgroups, int depth, int stages) {
  Config config;
  config.token_tile = token_tile;
  config.cluster = cluster;
  config.warpgroups = warpgroups;
  config.tiles = 2;
  config.first_tiles = tiles_for(shape.hidden * (shape.form == mlp::Form::swiglu ? 2 : 1), config);
  config.second_tiles = tiles_for(shape.model, config);
  config.first_depth = depth;
  config.second_depth = depth;
  config.activation_stages = stages;
  return config;
}

}  // namespace

std::vector<Config> configs(mlp::Shape const& shape) {
  std::vector<Config> list;
  int const tokens = shape.tokens;
  auto add = [&](Config config) {
    // Many rows and a cluster: partial sums of two tiles may not fit before the last wave.
    if (!can_implement(shape, config)) config.first_tiles = 1;
    if (!can_implement(shape, config)) config.second_tiles = 1;
    if (can_implement(shape, config)) list.push_back(config);
  };
  if (tokens <= 8) add(base(shape, 8, 1, 1, 4, 8));
  if (tokens > 8 && tokens <= 16) add(base(shape, 16, 1, 1, 4, 6));
  if (tokens > 16 && tokens <= 32) {
    add(base(shape, 32, 2, 2, 2, 6));
    add(base(shape, 32, 1, 1, 2, 6));
  }
  if (tokens > 32 && tokens <= 64) add(base(shape, 64, 2, 2, 2, 4));
  if (tokens > 32 && tokens <= 64) add(base(shape, 64, 4, 3, 1, 8));
  if (tokens > 64) {
    add(base(shape, 128, 4, 3, 1, 5));
    add(base(shape, 128, 4, 3, 1, 6));
  }
  return list;
}

}  // namespace tessera::skinny_sm90
