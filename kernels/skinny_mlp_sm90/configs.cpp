// SPDX-License-Identifier: Apache-2.0
// What a tuner may try. The order is that of the measurements in docs/design/notes-skinny.md.
#include <cstdio>
#include <initializer_list>

#include "skinny.hpp"

namespace tessera::skinny_sm90 {
namespace {

constexpr int usual_processors = 132;

struct Kernel {
  int token_tile, split, tiles;
};
struct Rings {
  int first_depth, second_depth, activation_depth, activation_stages;
  int second_split = 0;
};

/// Tiles of a GEMM so that a unit's rows fit the warpgroup, as few as can be.
int tiles_for(int rows, Kernel const& kernel) { return rows / usual_processors >= 64 ? kernel.tiles : 1; }

Config config_of(mlp::Shape const& shape, Kernel const& kernel, Rings const& rings) {
  Config config;
  config.token_tile = kernel.token_tile;
  config.split = kernel.split;
  config.tiles = kernel.tiles;
  config.first_tiles = tiles_for(shape.hidden * (shape.form == mlp::Form::swiglu ? 2 : 1), kernel);
  config.second_tiles = tiles_for(shape.model, kernel);
  config.first_depth = rings.first_depth;
  config.second_depth = rings.second_depth;
  config.activation_depth = rings.activation_depth;
  config.activation_stages = rings.activation_stages;
  config.second_split = rings.second_split;
  return config;
}

}  // namespace

std::vector<Config> configs(mlp::Shape const& shape) {
  std::vector<Config> list;
  auto add = [&](Kernel const& kernel, std::initializer_list<Rings> rings) {
    for (Rings const& one : rings)
      if (auto const config = config_of(shape, kernel, one); can_implement(shape, config))
        list.push_back(config);
  };
  int const tokens = shape.tokens;
  if (tokens <= 8) add({8, 1, 2}, {{4, 4, 4, 4}, {4, 4, 4, 8}});
  if (tokens > 8 && tokens <= 16) add({16, 1, 2}, {{4, 4, 4, 6}, {4, 4, 4, 4}});
  if (tokens > 16 && tokens <= 32) add({32, 1, 2}, {{4, 4, 4, 4}, {4, 4, 4, 3}});
  // From here on only the first GEMM is split, or both.
  if (tokens > 32 && tokens <= 64)
    add({64, 2, 1},
        {{2, 2, 2, 4, 1}, {2, 2, 2, 3, 1}, {4, 4, 2, 3, 1}, {4, 2, 2, 3}, {2, 2, 2, 3}, {2, 1, 2, 3}});
  if (tokens > 64)
    add({128, 2, 1},
        {{2, 2, 2, 3, 1}, {2, 2, 2, 4, 1}, {2, 1, 2, 3}, {2, 2, 2, 3}, {1, 2, 2, 3, 1}, {2, 2, 2, 2}});
  return list;
}

std::optional<Config> parse_config(std::string const& text) {
  Config c;
  int read = 0;
  // "s2+1" where only the first GEMM is split.
  if (std::sscanf(text.c_str(), "n%d s%d+%d t%d:%n", &c.token_tile, &c.split, &c.second_split, &c.tiles,
                  &read) != 4) {
    c.second_split = 0;
    read = 0;
    if (std::sscanf(text.c_str(), "n%d s%d t%d:%n", &c.token_tile, &c.split, &c.tiles, &read) != 3) return {};
  }
  constexpr int fields = 10;
  int const rest = std::sscanf(
      text.c_str() + read, " %d+%d tiles, %d+%d waves, %d+%d deep, %d slots, %dx%d activations, %d",
      &c.first_tiles, &c.second_tiles, &c.first_waves, &c.second_waves, &c.first_depth, &c.second_depth,
      &c.slots, &c.activation_stages, &c.activation_depth, &c.blocks);
  return rest == fields && to_string(c) == text ? std::optional(c) : std::nullopt;
}

}  // namespace tessera::skinny_sm90
