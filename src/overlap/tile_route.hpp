// SPDX-License-Identifier: Apache-2.0
// Where the tiles of an output go, tile by tile: what an OutputConfiguration says, looked up fast.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/overlap/configure.hpp"

namespace tessera::overlap {

struct TileRoute {
  bool local = true;
  std::int32_t updates = 1;          ///< of each element of the local copy, in all
  std::vector<std::int32_t> phases;  ///< updates after which copies are triggered, phase by phase
  std::vector<std::int32_t> remote;  ///< indices into OutputConfiguration::remote
};

/// By tile.
inline std::vector<TileRoute> tile_routes(OutputConfiguration const& output) {
  std::vector<TileRoute> routes(static_cast<std::size_t>(output.tiles));
  for (std::size_t t = 0; t < routes.size(); ++t)
    routes[t].updates = t < output.updates.size() ? output.updates[t] : 1;
  for (std::size_t m = 0; m < output.remote.size(); ++m)
    for (auto const tile : output.remote[m].tiles) {
      auto& route = routes[static_cast<std::size_t>(tile)];
      route.remote.push_back(static_cast<std::int32_t>(m));
      route.local = output.remote[m].keep;
    }
  for (auto const& map : output.dma)
    for (auto const tile : map.tiles) {
      auto& phases = routes[static_cast<std::size_t>(tile)].phases;
      auto const phase = static_cast<std::size_t>(map.phase);
      if (phases.size() <= phase) phases.resize(phase + 1, 0);
      phases[phase] = map.updates_per_element;
    }
  return routes;
}

}  // namespace tessera::overlap
