// SPDX-License-Identifier: Apache-2.0
#include "check/coverage.hpp"

#include <cstddef>
#include <utility>

namespace tessera::check_detail {

// Each box adds +1 and -1 at its corners; the sums of all differences before a tile, dimension after
// dimension, are the counts. Unsigned, because intermediate sums may be negative: they wrap back.

void Coverage::add(TileRelation::Box const& box) {
  struct Corner {
    std::int64_t at;
    std::uint32_t sign;
  };
  Corner corners[1 << k_max_rank] = {{0, 1}};
  int count = 1;
  std::int64_t stride = 1;
  for (int d = 0; d < grid_.rank; ++d) {
    auto const before = count;
    for (int c = 0; c < before; ++c) {
      if (box.end[d] < grid_.extent[d])
        corners[count++] = {corners[c].at + box.end[d] * stride, 0 - corners[c].sign};
      corners[c].at += box.begin[d] * stride;
    }
    stride *= grid_.extent[d];
  }
  for (int c = 0; c < count; ++c) differences_[static_cast<std::size_t>(corners[c].at)] += corners[c].sign;
}

std::vector<std::uint32_t> Coverage::take_counts() {
  auto counts = std::exchange(differences_, {});
  std::size_t stride = 1;
  for (int d = 0; d < grid_.rank; ++d) {
    auto const row = stride * static_cast<std::size_t>(grid_.extent[d]);
    for (std::size_t first = 0; first < counts.size(); first += row)
      for (auto i = first + stride; i < first + row; ++i) counts[i] += counts[i - stride];
    stride = row;
  }
  return counts;
}

}  // namespace tessera::check_detail
