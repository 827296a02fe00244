// SPDX-License-Identifier: Apache-2.0
#include "check/union_size.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera::check_detail {
namespace {

using Box = TileRelation::Box;

std::int64_t volume(Box const& box, int rank) {
  std::int64_t product = 1;
  for (int d = 0; d < rank; ++d) product *= box.end[d] - box.begin[d];
  return product;
}

bool overlap(Box const& a, Box const& b, int rank) {
  for (int d = 0; d < rank; ++d)
    if (a.end[d] <= b.begin[d] || b.end[d] <= a.begin[d]) return false;
  return true;
}

bool disjoint(std::span<Box const> boxes, int rank) {
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(boxes[i], boxes[j], rank)) return false;
  return true;
}

}  // namespace

std::int64_t union_size(std::span<Box const> boxes, int rank, std::int64_t& steps, std::int64_t limit) {
  auto const count = static_cast<std::int64_t>(boxes.size());
  steps += count;
  if (boxes.empty() || steps > limit) return 0;
  if (boxes.size() == 1) return volume(boxes[0], rank);
  if (boxes.size() <= 16 && disjoint(boxes, rank)) {
    std::int64_t sum = 0;
    for (auto const& box : boxes) sum += volume(box, rank);
    return sum;
  }
  if (rank == 0) return 1;

  // Cut along the last dimension where any box begins or ends; inside a slab nothing changes.
  auto const last = rank - 1;
  std::vector<int> cuts;
  for (auto const& box : boxes) cuts.insert(cuts.end(), {box.begin[last], box.end[last]});
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::int64_t sum = 0;
  std::vector<Box> inside;
  for (std::size_t c = 0; c + 1 < cuts.size() && steps <= limit; ++c) {
    inside.clear();
    for (auto const& box : boxes)
      if (box.begin[last] <= cuts[c] && cuts[c] < box.end[last]) inside.push_back(box);
    steps += count;
    sum += (cuts[c + 1] - cuts[c]) * union_size(inside, last, steps, limit);
  }
  return sum;
}

}  // namespace tessera::check_detail
