// SPDX-License-Identifier: Apache-2.0
// What a rank has of a problem: its planes, and those beyond them as the box has them. Without CUDA.
#pragma once

#include "kernels/lattice_boltzmann/slab.hpp"

namespace tessera::lattice_boltzmann {

/// Values of a box's cells for the cells of a rank's slab and of the planes beyond its ends; none of none.
template <class T>
std::vector<T> of_slab(Problem const& problem, RowRange planes, std::vector<T> const& all) {
  if (all.empty()) return {};
  auto const plane = 1LL * problem.width * problem.height;
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(plane * (planes.rows() + 2)));
  for (int z = planes.begin - 1; z <= planes.end; ++z) {
    auto const first = all.begin() + plane * ((z + problem.depth) % problem.depth);
    result.insert(result.end(), first, first + plane);
  }
  return result;
}

/// Bytes of device memory that each rank takes at most.
long long memory_of_slab(Problem const& problem, int ranks);
/// Refuses (E0569) more ranks than planes.
Expected<void> check_shared(Problem const& problem, int ranks);
/// And slabs for which a GPU has too little memory free.
Expected<void> check_slabs(Problem const& problem, int ranks, long long free_bytes);

}  // namespace tessera::lattice_boltzmann
