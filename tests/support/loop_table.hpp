// SPDX-License-Identifier: Apache-2.0
// A loop as a table of what each of its tiles reads and writes, and one tile function for all loops that is
// driven by it. The same function on a GPU, on threads and serially: its tiles are hashes of everything that
// they read, so that a tile that is read too early, too late, from another copy or not at all changes all
// that come after it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/mix.hpp"
#include "tessera/describe/loop.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera::loop_table {

constexpr int k_width = 64;  ///< values of a tile
constexpr int k_most_stages = 6;
constexpr int k_most_operands = 2;  ///< of a stage
constexpr int k_most_tiles = 8;     ///< of a stage
constexpr int k_before = 3;         ///< copies from before the loop, where each iteration has its own

/// What a stage reads through one operand.
struct OperandRow {
  int producer = 0;
  int distance = 0;                        ///< in iterations
  std::uint32_t reads[k_most_tiles] = {};  ///< by tile of the reader: the producer's tiles, a bit for each
};

/// A stage of the body and the copies of its output.
struct StageRow {
  int tiles = 0;
  int copies = 1;  ///< or BufferCopies::each_iteration
  int first = 0;   ///< where its first copy begins in memory, in tiles
  int operands = 0;
  OperandRow operand[k_most_operands];
};

struct Table {
  int stages = 0;
  int tiles_of_body = 0;
  int tiles_of_memory = 0;
  StageRow stage[k_most_stages];
};

/// Which copy an iteration uses. From before the loop, where each iteration has its own: -1, -2, -3.
TESSERA_HOST_DEVICE constexpr long long copy_of(int copies, long long iteration) {
  if (copies == BufferCopies::each_iteration) return iteration;
  return (iteration % copies + copies) % copies;
}

/// Where a tile's values begin in memory.
TESSERA_HOST_DEVICE constexpr long long place_of(Table const& table, int stage, long long iteration,
                                                 int tile) {
  auto const& row = table.stage[stage];
  int const before = row.copies == BufferCopies::each_iteration ? k_before : 0;
  return (row.first + (copy_of(row.copies, iteration) + before) * row.tiles + tile) * k_width;
}

/// Where they begin in a record of all iterations, which no iteration overwrites.
TESSERA_HOST_DEVICE constexpr long long record_of(Table const& table, int stage, long long iteration,
                                                  int tile) {
  long long place = iteration * table.tiles_of_body + tile;
  for (int s = 0; s < stage; ++s) place += table.stage[s].tiles;
  return place * k_width;
}

/// Value i of a tile, before it has read anything.
TESSERA_HOST_DEVICE constexpr std::uint64_t begin(int stage, long long iteration, int tile, int i) {
  auto const h =
      support::mix(static_cast<std::uint64_t>(iteration) * 64 + static_cast<std::uint64_t>(stage), 1);
  return support::mix(h, static_cast<std::uint64_t>(tile * k_width + i));
}
/// Value i once it has read another tile: two of that tile's values, which another warp has written.
TESSERA_HOST_DEVICE constexpr std::uint64_t take(std::uint64_t h, std::uint64_t const* tile, int i) {
  return support::mix(support::mix(h, tile[i]), tile[(i + k_width / 2 + 1) % k_width]);
}
/// What a copy holds before the loop.
constexpr std::uint64_t before_loop(int stage, long long copy, int tile, int i) {
  return begin(stage, copy - 1000, tile, i);
}

/// Value i of a tile, from what is in memory.
TESSERA_HOST_DEVICE inline std::uint64_t value_of(Table const& table, std::uint64_t const* memory, int stage,
                                                  long long iteration, int tile, int i) {
  auto h = begin(stage, iteration, tile, i);
  auto const& row = table.stage[stage];
  for (int o = 0; o < row.operands; ++o) {
    auto const& operand = row.operand[o];
    for (int read = 0; read < k_most_tiles; ++read)
      if ((operand.reads[tile] >> read & 1u) != 0)
        h = take(h, memory + place_of(table, operand.producer, iteration - operand.distance, read), i);
  }
  return h;
}

/// The whole tile, as one block does it: all is read before anything is stored.
inline void compute(Table const& table, std::uint64_t* memory, std::uint64_t* record, int stage,
                    long long iteration, int tile) {
  std::uint64_t values[k_width];
  for (int i = 0; i < k_width; ++i) values[i] = value_of(table, memory, stage, iteration, tile, i);
  for (int i = 0; i < k_width; ++i) {
    memory[place_of(table, stage, iteration, tile) + i] = values[i];
    record[record_of(table, stage, iteration, tile) + i] = values[i];
  }
}

/// For launches of at most so many iterations. Throws where the loop is larger than a table.
inline Table table_of(Loop const& loop, int most_iterations) {
  auto const fits = [](std::size_t size, int most) {
    if (size > static_cast<std::size_t>(most)) throw std::length_error("larger than a loop's table");
    return static_cast<int>(size);
  };
  auto const& body = loop.body;
  Table table;
  table.stages = fits(body.stages.size(), k_most_stages);
  for (int s = 0; s < table.stages; ++s) {
    auto const& stage = body.stages[static_cast<std::size_t>(s)];
    auto& row = table.stage[s];
    row.tiles = fits(static_cast<std::size_t>(stage.tiles()), k_most_tiles);
    row.copies = copies_of(loop, stage.output);
    row.first = table.tiles_of_memory;
    table.tiles_of_body += row.tiles;
    int const in_memory =
        row.copies == BufferCopies::each_iteration ? k_before + most_iterations : row.copies;
    table.tiles_of_memory += in_memory * row.tiles;
  }
  auto const add = [&](Dependence const& dependence, int distance) {
    auto& row = table.stage[dependence.consumer];
    fits(static_cast<std::size_t>(row.operands) + 1, k_most_operands);
    fits(static_cast<std::size_t>(distance), k_before);
    auto& operand = row.operand[row.operands++];
    operand.producer = dependence.producer;
    operand.distance = distance;
    std::vector<std::int64_t> tiles;
    for (int tile = 0; tile < row.tiles; ++tile) {
      TileRelation(body, dependence).producers_of(tile, tiles);
      for (auto const read : tiles) operand.reads[tile] |= 1u << read;
    }
  };
  for (auto const& dependence : body.dependences) add(dependence, 0);
  for (auto const& [dependence, distance] : loop.carried) add(dependence, distance);
  return table;
}

}  // namespace tessera::loop_table
