// SPDX-License-Identifier: Apache-2.0
// A policy says which semaphore a producer tile posts to, and how many posts mean "ready".
// Well-known ones are products of one map for each dimension of the grid; where that does not fit,
// any type with the same three functions will do. All of it runs on the CPU as well as in a kernel.
#include <cstdio>

#include "tessera/sync.cuh"

using tessera::ProductPolicy;
using tessera::Stride;
using tessera::Tile;
using tessera::TileGrid;

// Two matrices side by side, as in a SwiGLU layer: column c of the left half and column c of the right
// half feed the same consumer tile, so they share a semaphore. That is a product: a stride along x, each
// row by itself.
using SwigluSync = ProductPolicy<Stride<3>>;

// Lower-triangular tiles of causal attention: tiles right of the diagonal are never computed, so row y has
// y + 1 posts instead of all columns. No product of per-dimension maps can say that; this type can.
struct CausalRowSync {
  TESSERA_HOST_DEVICE static constexpr long long count(TileGrid const& grid) { return grid.extent[1]; }
  TESSERA_HOST_DEVICE static constexpr long long semaphore_of(TileGrid const&, Tile const& tile) {
    return tile.at[1];
  }
  TESSERA_HOST_DEVICE static constexpr long long tiles_of(TileGrid const& grid, long long semaphore) {
    return semaphore + 1 < grid.extent[0] ? semaphore + 1 : grid.extent[0];
  }
};

// What the library checks when a stage is compiled with the policy: a sentence for each missing member.
static_assert(tessera::RequirePolicy<CausalRowSync>::met);

// The two maps must agree: posts counted tile by tile are the posts that a waiter expects.
template <class Policy, class Computed>
bool consistent(Policy const& policy, TileGrid const& grid, Computed computed) {
  for (long long semaphore = 0; semaphore < policy.count(grid); ++semaphore) {
    long long posts = 0;
    for (long long linear = 0; linear < grid.tiles(); ++linear) {
      Tile const tile = tile_of(grid, linear);
      if (computed(tile) && policy.semaphore_of(grid, tile) == semaphore) ++posts;
    }
    if (posts != policy.tiles_of(grid, semaphore)) return false;
  }
  return true;
}

template <class Policy>
void show(char const* name, Policy const& policy, TileGrid const& grid) {
  std::printf("%-14s %lld semaphores for a grid of %d x %d; ready at", name, policy.count(grid),
              grid.extent[0], grid.extent[1]);
  for (long long semaphore = 0; semaphore < policy.count(grid); ++semaphore)
    std::printf(" %lld", policy.tiles_of(grid, semaphore));
  std::printf(" posts\n");
}

int main() {
  TileGrid const halves{2, {6, 2, 1, 1}};
  show("swiglu", SwigluSync{}, halves);

  TileGrid const scores{2, {4, 4, 1, 1}};
  show("causal rows", CausalRowSync{}, scores);

  bool const fine =
      consistent(SwigluSync{}, halves, [](Tile const&) { return true; }) &&
      consistent(CausalRowSync{}, scores, [](Tile const& tile) { return tile.at[0] <= tile.at[1]; });
  std::printf("posts and expected counts %s\n", fine ? "agree" : "DISAGREE");
  return fine ? 0 : 1;
}
