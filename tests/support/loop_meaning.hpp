// SPDX-License-Identifier: Apache-2.0
// What a loop means, straight from its description: the values that every tile of every iteration has where
// nothing is ever overwritten. Knows neither plans nor tables nor, but for what was there before the loop,
// copies.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/loop_table.hpp"

namespace tessera::loop_table {

using Values = std::vector<std::uint64_t>;

/// Does the tile read that tile of the producer? By its expressions alone.
inline bool reads(Pipeline const& body, Dependence const& dependence, int tile, int producer_tile) {
  auto const grid_of = [&](int s) { return body.stages[static_cast<std::size_t>(s)].tile_grid(); };
  auto const at = tile_of(grid_of(dependence.consumer), tile);
  auto const of = tile_of(grid_of(dependence.producer), producer_tile);
  return std::any_of(dependence.accesses.begin(), dependence.accesses.end(), [&](Access const& access) {
    for (std::size_t d = 0; d < access.ranges.size(); ++d)
      if (of.at[d] < access.ranges[d].begin.evaluate(at.at) ||
          of.at[d] >= access.ranges[d].end.evaluate(at.at))
        return false;
    return true;
  });
}

/// Calls `found(dependence, distance)` for all that a loop's stage reads: within the iteration first.
template <class Found>
void for_each_read(Loop const& loop, int stage, Found const& found) {
  for (auto const& dependence : loop.body.dependences)
    if (dependence.consumer == stage) found(dependence, 0);
  for (auto const& [dependence, distance] : loop.carried)
    if (dependence.consumer == stage) found(dependence, distance);
}

/// The record of so many iterations as they are meant. Precondition: within an iteration stages read earlier
/// ones alone.
inline Values meant(Loop const& loop, int iterations) {
  auto const table = table_of(loop, iterations);  // for the order of a record alone
  Values record(static_cast<std::size_t>(iterations) * static_cast<std::size_t>(table.tiles_of_body) *
                k_width);
  auto const tiles_of = [&](int s) {
    return static_cast<int>(loop.body.stages[static_cast<std::size_t>(s)].tiles());
  };
  auto const tile_at = [&](int stage, int iteration, int tile) {
    return record.data() + record_of(table, stage, iteration, tile);
  };
  auto const compute = [&](int n, int s, int tile) {
    auto* const values = tile_at(s, n, tile);
    for (int i = 0; i < k_width; ++i) values[i] = begin(s, n, tile, i);
    for_each_read(loop, s, [&](Dependence const& dependence, int distance) {
      int const from = n - distance, p = dependence.producer;
      int const copies = copies_of(loop, loop.body.stages[static_cast<std::size_t>(p)].output);
      for (int read = 0; read < tiles_of(p); ++read) {
        if (!reads(loop.body, dependence, tile, read)) continue;
        std::uint64_t before[k_width];
        for (int i = 0; from < 0 && i < k_width; ++i)
          before[i] = before_loop(p, copy_of(copies, from), read, i);
        auto const* const source = from < 0 ? before : tile_at(p, from, read);
        for (int i = 0; i < k_width; ++i) values[i] = take(values[i], source, i);
      }
    });
  };
  for (int n = 0; n < iterations; ++n)
    for (int s = 0; s < table.stages; ++s)
      for (int tile = 0; tile < tiles_of(s); ++tile) compute(n, s, tile);
  return record;
}

/// Memory before the first iteration.
inline Values memory_before(Table const& table) {
  Values memory(static_cast<std::size_t>(table.tiles_of_memory) * k_width);
  for (int s = 0; s < table.stages; ++s) {
    auto const& row = table.stage[s];
    int const end = s + 1 < table.stages ? table.stage[s + 1].first : table.tiles_of_memory;
    int const before = row.copies == BufferCopies::each_iteration ? k_before : 0;
    for (int place = row.first; place < end; ++place)
      for (int i = 0; i < k_width; ++i)
        memory[static_cast<std::size_t>(place * k_width + i)] =
            before_loop(s, (place - row.first) / row.tiles - before, (place - row.first) % row.tiles, i);
  }
  return memory;
}

inline int iterations_of(Table const& table, Values const& record) {
  return static_cast<int>(record.size()) / std::max(1, table.tiles_of_body * k_width);
}

/// Memory after a launch of that record: each copy as its last iteration left it.
inline Values memory_after(Table const& table, Values const& record) {
  auto memory = memory_before(table);
  auto const iterations = iterations_of(table, record);
  for (int n = 0; n < iterations; ++n)
    for (int s = 0; s < table.stages; ++s)
      for (int tile = 0; tile < table.stage[s].tiles; ++tile)
        std::copy_n(record.data() + record_of(table, s, n, tile), k_width,
                    memory.data() + place_of(table, s, n, tile));
  return memory;
}

/// A record as it is before a launch: no tile has been computed.
inline Values no_record(Table const& table, int iterations) {
  return Values(static_cast<std::size_t>(iterations) * static_cast<std::size_t>(table.tiles_of_body) *
                k_width);
}

/// The first tile that is not as it was meant, by iteration, stage and tile; empty: all is right, and every
/// copy is as its last iteration left it.
inline std::string wrong(Table const& table, Values const& memory, Values const& record,
                         Values const& meant) {
  auto const iterations = iterations_of(table, meant);
  for (int n = 0; n < iterations; ++n)
    for (int s = 0; s < table.stages; ++s)
      for (int tile = 0; tile < table.stage[s].tiles; ++tile)
        for (int i = 0; i < k_width; ++i) {
          auto const at = static_cast<std::size_t>(record_of(table, s, n, tile) + i);
          if (record.at(at) != meant[at])
            return fmt::format("iteration {}, stage {}, tile {}: value {} is {:016x}, meant was {:016x}", n,
                               s, tile, i, record[at], meant[at]);
        }
  auto const after = memory_after(table, meant);
  for (int s = 0; s < table.stages; ++s)
    for (int n = 0; n < iterations; ++n)
      for (int tile = 0; tile < table.stage[s].tiles; ++tile) {
        auto const at = place_of(table, s, n, tile);
        if (!std::equal(memory.data() + at, memory.data() + at + k_width, after.data() + at))
          return fmt::format("iteration {}, stage {}, tile {}: its copy is not as its last iteration left it",
                             n, s, tile);
      }
  return memory == after ? "" : "a copy from before the loop was overwritten";
}

}  // namespace tessera::loop_table
