// SPDX-License-Identifier: Apache-2.0
// Integer feasibility: a number of blocks of several sizes, and the combinations that fill one SM.
#include <algorithm>
#include <numeric>

#include "progress_kernels.hpp"

namespace tessera::progress {
namespace {

using Counts = std::vector<std::int64_t>;  // by size

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::size_t k_max_combinations = 2000;
constexpr int k_max_nodes = 20'000;

struct Sizes {
  std::vector<SmRoom> use;
  Counts blocks;
};

/// All minimal combinations of blocks that keep `blocked` off an SM. False: too many to list.
bool list_combinations(Sizes const& sizes, SmRoom const& blocked, std::size_t size, SmRoom left,
                       Counts& counts, std::vector<Counts>& out) {
  if (!left.holds(blocked)) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      auto without = left;
      if (!(without += sizes.use[i]).holds(blocked)) return true;  // not minimal
    }
    out.push_back(counts);
    return out.size() <= k_max_combinations;
  }
  for (; size < sizes.use.size(); ++size) {
    if (counts[size] == sizes.blocks[size] || !left.holds(sizes.use[size])) continue;
    auto rest = left;
    ++counts[size];
    bool const listed = list_combinations(sizes, blocked, size, rest -= sizes.use[size], counts, out);
    --counts[size];
    if (!listed) return false;
  }
  return true;
}

class Packing {
 public:
  Packing(std::vector<Counts> combinations, std::size_t sizes) : combinations_(std::move(combinations)) {
    // Every covered SM uses up blocks worth at least 1, if a block is worth 1 / (the smallest combination
    // that it is part of).
    worth_.assign(sizes, 0);
    for (auto const& one : combinations_) {
      auto const total = std::accumulate(one.begin(), one.end(), std::int64_t{0});
      for (std::size_t i = 0; i < sizes; ++i)
        if (one[i] > 0) worth_[i] = std::max(worth_[i], 1.0 / static_cast<double>(total));
    }
  }

  /// False only if proved.
  bool may_cover(std::size_t first, Counts const& blocks, std::int64_t sms) {
    if (sms == 0) return true;
    if (first == combinations_.size() || bound(blocks) < static_cast<double>(sms) - 1e-6) return false;
    if (++nodes_ > k_max_nodes) return true;
    auto const& one = combinations_[first];
    auto most = sms;
    for (std::size_t i = 0; i < one.size(); ++i)
      if (one[i] > 0) most = std::min(most, blocks[i] / one[i]);
    auto rest = blocks;
    for (auto used = most; used >= 0; --used) {
      for (std::size_t i = 0; i < one.size(); ++i) rest[i] = blocks[i] - used * one[i];
      if (may_cover(first + 1, rest, sms - used)) return true;
    }
    return false;
  }

 private:
  double bound(Counts const& blocks) const {
    double sum = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) sum += worth_[i] * static_cast<double>(blocks[i]);
    return sum;
  }

  std::vector<Counts> combinations_;
  std::vector<double> worth_;
  int nodes_ = 0;
};

}  // namespace

bool may_cover(Setting const& setting, int blocked_kernel, std::vector<Stickable> const& blocks) {
  Sizes sizes;
  for (auto const& one : blocks) {
    auto const& use = setting.kernels[at(one.kernel)].use;
    auto const place = std::find(sizes.use.begin(), sizes.use.end(), use);
    if (place == sizes.use.end()) {
      sizes.use.push_back(use);
      sizes.blocks.push_back(one.blocks);
    } else {
      sizes.blocks[at(place - sizes.use.begin())] += one.blocks;
    }
  }
  Counts counts(sizes.use.size());
  std::vector<Counts> combinations;
  if (!list_combinations(sizes, setting.kernels[at(blocked_kernel)].use, 0, setting.sm, counts, combinations))
    return true;
  std::sort(combinations.begin(), combinations.end(), [](Counts const& a, Counts const& b) {
    return std::accumulate(a.begin(), a.end(), std::int64_t{0}) <
           std::accumulate(b.begin(), b.end(), std::int64_t{0});
  });
  return Packing(std::move(combinations), sizes.use.size())
      .may_cover(0, sizes.blocks, sms_to_cover(setting, blocked_kernel));
}

}  // namespace tessera::progress
