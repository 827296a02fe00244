// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/policy_map.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

std::size_t at(long long index) { return static_cast<std::size_t>(index); }

constexpr DimensionMap k_all{Grouping::all, 1};

}  // namespace

bool PolicyMap::operator==(PolicyMap const& other) const {
  for (int d = 0; d < k_max_rank; ++d)
    if (dimension[d].grouping != other.dimension[d].grouping ||
        dimension[d].width != other.dimension[d].width)
      return false;
  return table == other.table;
}

PolicyMap table_map(std::vector<std::int32_t> semaphores) {
  PolicyMap map;
  map.table = std::move(semaphores);
  for (auto const semaphore : map.table) {
    if (semaphore < 0 || at(semaphore) >= map.table.size()) continue;
    if (at(semaphore) >= map.members.size()) map.members.resize(at(semaphore) + 1, 0);
    ++map.members[at(semaphore)];
  }
  return map;
}

PolicyMap table_map(TileGrid const& grid, std::function<long long(Tile const&)> const& semaphore_of) {
  std::vector<std::int32_t> semaphores;
  for (long long tile = 0; tile < grid.tiles(); ++tile) {
    auto const semaphore = semaphore_of(tile_of(grid, tile));
    semaphores.push_back(semaphore < 0 || semaphore > INT32_MAX ? -1 : static_cast<std::int32_t>(semaphore));
  }
  return table_map(std::move(semaphores));
}

std::string problem_of(PolicyMap const& map, TileGrid const& grid) {
  if (!map.is_table()) {
    for (int d = 0; d < grid.rank; ++d) {
      auto const& one = map.dimension[d];
      if ((one.grouping == Grouping::block || one.grouping == Grouping::stride) && one.width < 1)
        return fmt::format("dimension {} has a width of {}; 1 is the least", d, one.width);
    }
    return {};
  }
  if (static_cast<long long>(map.table.size()) != grid.tiles())
    return fmt::format("its table has {} entries, and the producer {} tiles", map.table.size(), grid.tiles());
  for (std::size_t tile = 0; tile < map.table.size(); ++tile)
    if (map.table[tile] < 0 || at(map.table[tile]) >= map.table.size())
      return fmt::format("tile {} has semaphore {}; they count from 0 to at most {}", tile, map.table[tile],
                         map.table.size() - 1);
  auto const gap = std::find(map.members.begin(), map.members.end(), 0);
  if (gap != map.members.end())
    return fmt::format("no tile has semaphore {}, though one has {}", gap - map.members.begin(),
                       map.members.size() - 1);
  return {};
}

NamedPolicy product(std::vector<DimensionMap> const& dimensions, std::string name) {
  NamedPolicy policy{std::move(name), {}};
  std::copy_n(dimensions.begin(), std::min(dimensions.size(), at(k_max_rank)), policy.map.dimension);
  return policy;
}

NamedPolicy each_tile() { return product({}); }

NamedPolicy rows(int together) {
  if (together == 1) return product({k_all});
  return product({k_all, {Grouping::block, together}});
}

NamedPolicy strided(int tiles) { return product({{Grouping::stride, tiles}}); }

NamedPolicy whole_grid() { return product({k_all, k_all, k_all, k_all}); }

}  // namespace tessera
