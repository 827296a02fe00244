// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/chip_tables.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

namespace tessera::lattice_boltzmann {
namespace {

constexpr int k_lanes = 32, k_banks = 32;

template <class Visit>
void for_each_cell(ChipBlock const& block, Visit const& visit) {
  for (int z = 0; z < block.size[2]; ++z)
    for (int y = 0; y < block.size[1]; ++y)
      for (int x = 0; x < block.size[0]; ++x) visit(block.number_of(x, y, z));
}

int tasks_for(std::size_t cells) { return static_cast<int>((cells + k_lanes - 1) / k_lanes); }

/// One block of a cut, and what is beside its cells.
struct Builder {
  ChipCut const& cut;
  std::vector<Links> const& links;
  ChipTables& tables;
  ChipBlock block;
  ChipConstants constants = {};

  Links links_of(int n) const {
    if (links.empty()) return {};
    int at[3] = {};
    block.place(n, at);
    auto const x = block.first[0] + at[0], y = block.first[1] + at[1], z = block.first[2] + at[2];
    return links[static_cast<std::size_t>(x + 1LL * cut.box[0] * (y + 1LL * cut.box[1] * z))];
  }
  /// 0 at an axis's lower end, 1 between, 2 at the upper end.
  int row_of(int n) const {
    int at[3] = {}, row = 0;
    block.place(n, at);
    for (int a = 2; a >= 0; --a) row = 3 * row + (at[a] == 0 ? 0 : at[a] + 1 == block.size[a] ? 2 : 1);
    return row;
  }

  void set_geometry() {
    for (int a = 0; a < 3; ++a) constants.first[a] = block.first[a], constants.size[a] = block.size[a];
    constants.row = block.stride[1], constants.plane = block.stride[2];
    constants.number = cut.number_of(block.own);
    for (int t = 0; t < 27; ++t) {
      int number = 0;
      for (int axis = 2, rest = t; axis >= 0; --axis, rest /= 3) {
        int const at = rest % 3 == 0   ? block.neighbour_before[axis]
                       : rest % 3 == 1 ? block.neighbour_behind[axis]
                                       : block.own[axis];
        number = number * cut.blocks[axis] + at;
      }
      constants.neighbours[t] = number;
    }
    for (int s = 0; s < k_sides; ++s)
      for (int k = 0; k < k_words; ++k) {
        auto const word = static_cast<std::size_t>(k);
        constants.leave[s].bytes[word] = 4 * opposite(leaving(s, k)) * k_slot;
        constants.land[s].bytes[word] = 4 * (leaving(s ^ 1, k) * k_slot + step_u(k) * block.side[s].along_u +
                                             step_v(k) * block.side[s].along_v);
      }
  }
  void set_reach() {
    std::set<int> partners;
    for (int row = 0; row < k_reach_rows; ++row) {
      unsigned sides = 0;
      for (int a = 0, rest = row; a < 3; ++a, rest /= 3) {
        if (rest % 3 == 0) sides |= 1u << (2 * a);
        if (rest % 3 == 2 || block.size[a] == 1) sides |= 2u << (2 * a);
      }
      unsigned const crossing = entering_any(sides);
      for (int i = 0; i < k_directions; ++i) {
        bool const crosses = (crossing >> i & 1) != 0;
        int const rank = crosses ? source_rank(sides, i) : -1;
        bool const own = i == 0 || (crosses && rank < 0);
        int const reached =
            rank < 0 ? -velocity_x(i) - velocity_y(i) * block.stride[1] - velocity_z(i) * block.stride[2]
                     : way_to_source(sides, i);
        int const bytes = 4 * (own ? i * k_slot : opposite(i) * k_slot + reached);
        constants.reach[row].bytes[i] = rank < 0 ? bytes : place_in(rank, bytes);
        if (rank >= 0 && rank != own_rank()) partners.insert(rank);
      }
    }
    for (int const rank : partners) constants.partner[constants.partners++] = rank;
  }
  /// Does population i cross the block's end along an axis, of a cell at these sides?
  static bool crosses_along(unsigned sides, int axis, int i) {
    int const v = velocity_along(axis, i);
    return v != 0 && (sides >> (2 * axis + (v > 0 ? 0 : 1)) & 1) != 0;
  }
  /// The rank in this block's cluster of the block that population i comes from; -1: in none of it.
  int source_rank(unsigned sides, int i) const {
    int from[3] = {};
    for (int a = 0; a < 3; ++a)
      from[a] = block.own[a] - (crosses_along(sides, a, i) ? velocity_along(a, i) : 0);
    return cut.rank_beside(block.own, from);
  }
  int own_rank() const { return cut.rank_beside(block.own, block.own); }
  /// In places, from the cell's own on, which is in the same place of the other block's memory.
  int way_to_source(unsigned sides, int i) const {
    int way = 0;
    for (int a = 0; a < 3; ++a) {
      int const v = velocity_along(a, i);
      int const before =
          cut.first(a, block.neighbour_before[a] + 1) - cut.first(a, block.neighbour_before[a]);
      way += block.stride[a] * (!crosses_along(sides, a, i) ? -v : v > 0 ? before - 1 : 1 - block.size[a]);
    }
    return way;
  }
  /// Populations of a cell at these sides that come from blocks of other clusters.
  unsigned from_outside(unsigned sides) const {
    unsigned mask = entering_any(sides);
    for (int i = 1; i < k_directions; ++i)
      if ((mask >> i & 1) != 0 && source_rank(sides, i) >= 0) mask &= ~(1u << i);
    return mask;
  }

  void set_order() {
    std::vector<int> plain, linked, beside, inside;
    for_each_cell(block, [&](int n) {
      auto const link = links_of(n);
      if ((link.walls & k_solid) != 0) return;
      auto const sides = block.sides_of(n);
      bool const far = from_outside(sides) != entering_any(sides);
      (far ? linked : link.walls != 0 ? beside : sides != 0 ? plain : inside).push_back(n);
    });
    // Cells of a task at the same sides go the same way, so that their words do not meet elsewhere either.
    for (auto* const some : {&plain, &linked})
      std::stable_sort(some->begin(), some->end(), [&](int a, int b) { return row_of(a) < row_of(b); });
    constants.rim = static_cast<int>(tables.rim.size());
    constants.plain_tasks = tasks_for(plain.size());
    constants.linked_tasks = constants.plain_tasks + tasks_for(linked.size());
    constants.rim_tasks = constants.linked_tasks + tasks_for(beside.size());
    for (auto const* const some : {&plain, &linked, &beside})
      for (int const n : in_order_of_banks(*some)) {
        tables.rim.push_back(n < 0 ? k_no_cell : static_cast<unsigned>(n | row_of(n) << k_row_shift));
        if (links.empty()) continue;
        auto const link = n < 0 ? Links{} : links_of(n);
        tables.beside_walls.push_back({n < 0 ? 0 : from_outside(block.sides_of(n)) | link.walls, link.lids});
      }
    constants.inside = static_cast<int>(tables.inside.size());
    constants.inside_tasks = tasks_for(inside.size());
    for (int const n : in_order_of_banks(inside))
      tables.inside.push_back(n < 0 ? k_none_inside : static_cast<std::uint16_t>(n));
  }

  /// Is the cell (u, v) behind a side in a block of the same cluster?
  bool in_cluster(ChipSide const& side, int number, int u, int v) const {
    int step[3] = {};
    side.source(number, u, v, step);
    for (int a = 0; a < 3; ++a) step[a] += block.own[a];
    return cut.rank_beside(block.own, step) >= 0;
  }
  /// `asked`: of all that are shown, those that somebody takes.
  void set_taken(std::vector<bool>& asked) {
    constants.takes = static_cast<int>(tables.takes.size());
    for (int s = 0; s < k_sides; ++s) {
      auto const& side = block.side[s];
      for (int t = 0; t < side.taken; ++t) {
        int u = 0, v = 0;
        side.at(t, u, v);
        if (in_cluster(side, s, u, v)) continue;
        int const in_front = side.cell + u * side.along_u + v * side.along_v;
        unsigned hits = 0;
        for (int k = 0; k < k_words; ++k) {
          if (!side.hits(u, v, k)) continue;
          auto const walls = links_of(in_front + step_u(k) * side.along_u + step_v(k) * side.along_v).walls;
          if ((walls & k_solid) == 0 && (walls >> leaving(s ^ 1, k) & 1) == 0) hits |= 1u << k;
        }
        if (hits == 0) continue;
        int const from = side.shown(u, v);
        asked[static_cast<std::size_t>(from)] = true;
        tables.takes.push_back(
            {static_cast<unsigned>(from), static_cast<unsigned>(4 * in_front + k_taken_offset) | hits << 16 |
                                              static_cast<unsigned>(s) << 24});
      }
    }
    constants.taken = static_cast<int>(tables.takes.size()) - constants.takes;
  }
  void set_shown(std::vector<bool> const& asked, ChipConstants& of) {
    of.shows = static_cast<int>(tables.shows.size());
    for (int s = 0; s < k_sides; ++s) {
      auto const& side = block.side[s];
      for (int v = 0; v < side.size_v; ++v)
        for (int u = 0; u < side.size_u; ++u) {
          int const to = block.written[s] + side.origin_u + u + side.edge_u * (side.origin_v + v);
          if (asked[static_cast<std::size_t>(to)])
            tables.shows.push_back(
                {static_cast<unsigned>(to),
                 static_cast<unsigned>(4 * (side.cell + u * side.along_u + v * side.along_v)) |
                     static_cast<unsigned>(s) << 16});
        }
    }
    of.shown = static_cast<int>(tables.shows.size()) - of.shows;
  }
};

}  // namespace

std::vector<int> in_order_of_banks(std::vector<int> cells) {
  auto const tasks = static_cast<std::size_t>(tasks_for(cells.size()));
  std::vector<int> order(tasks * k_lanes, -1);
  // A task takes the first cell that is left of each bank, and if lanes are left then the first ones of any.
  for (std::size_t task = 0; task < tasks; ++task) {
    std::array<bool, k_banks> used = {};
    std::size_t lane = 0;
    for (bool const any : {false, true}) {
      std::vector<int> later;
      for (int const n : cells)
        if (auto& bank = used[static_cast<std::size_t>(n % k_banks)]; lane < k_lanes && (any || !bank))
          order[task * k_lanes + lane++] = n, bank = true;
        else
          later.push_back(n);
      cells = std::move(later);
    }
  }
  return order;
}

namespace {

/// Cycles that 32 words at a time, one behind the other along a side's rows, take beyond one for each 32.
int meetings(ChipBlock const& block, int side) {
  auto const& one = block.side[side];
  int all = 0, most = 0, lanes = 0;
  std::array<int, k_banks> banks = {};
  for (int v = 0; v < one.size_v; ++v)
    for (int u = 0; u < one.size_u; ++u) {
      most = std::max(most, ++banks[static_cast<std::size_t>((u * one.along_u + v * one.along_v) % k_banks)]);
      bool const last = u + 1 == one.size_u && v + 1 == one.size_v;
      if (++lanes < k_lanes && !last) continue;
      all += most - 1, most = lanes = 0, banks = {};
    }
  return all;
}
/// Cells that find no task in which nobody else has their bank.
int too_many(ChipBlock const& block, bool of_rim) {
  std::array<int, k_banks> banks = {};
  int cells = 0;
  for_each_cell(block, [&](int n) {
    if ((block.sides_of(n) != 0) == of_rim) ++cells, ++banks[static_cast<std::size_t>(n % k_banks)];
  });
  int const tasks = tasks_for(static_cast<std::size_t>(cells));
  int more = 0;
  for (int const bank : banks) more += std::max(0, bank - tasks);
  return more;
}

}  // namespace

void spread_over_banks(ChipBlock& block) {
  // Of the words of a side five are shown and five taken; a cell's update reads and writes 19.
  constexpr int of_side = 2 * k_words, of_cell = 2 * k_directions;
  int least = std::numeric_limits<int>::max(), row = 0, plane = 0;
  for (int r = block.size[0]; r < block.size[0] + 4; ++r)
    for (int p = r * block.size[1]; p < r * block.size[1] + k_banks; ++p) {
      block.lay_out(r, p);
      if (block.last() >= k_slot) continue;
      int cost = of_cell * (too_many(block, true) + too_many(block, false));
      for (int side = 0; side < k_sides; side += 2) cost += 2 * of_side * meetings(block, side);
      if (cost < least) least = cost, row = r, plane = p;
    }
  block.lay_out(row, plane);
}

ChipTables chip_tables(ChipCut const& cut, std::vector<Links> const& links) {
  ChipTables tables;
  std::vector<bool> asked(static_cast<std::size_t>(cut.shown()));
  std::vector<ChipBlock> blocks;
  std::map<std::array<int, 3>, ChipBlock> of_size;  // blocks have few sizes
  bool const clusters = cut.cluster_blocks() > 1;
  ChipBlock const largest(cut, cut.count() - 1);
  for (int b = 0; b < cut.count(); ++b) {
    auto& block = blocks.emplace_back(cut, cut.launched_number(b));
    auto const& like = clusters ? largest : block;
    auto const [known, added] = of_size.try_emplace({like.size[0], like.size[1], like.size[2]}, like);
    if (added) spread_over_banks(known->second);
    block.lay_out(known->second.stride[1], known->second.stride[2]);
  }
  for (auto const& block : blocks) {
    Builder builder{cut, links, tables, block};
    builder.set_geometry();
    builder.set_reach();
    builder.set_order();
    builder.set_taken(asked);
    tables.blocks.push_back(builder.constants);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b)
    Builder{cut, links, tables, blocks[b]}.set_shown(asked, tables.blocks[b]);
  return tables;
}

}  // namespace tessera::lattice_boltzmann
