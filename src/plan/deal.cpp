// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/deal.hpp"

#include <algorithm>
#include <queue>

namespace tessera {
namespace {

constexpr long long k_listed_tiles = 1 << 15;

struct Worker {
  double bytes = 0;
  long long last = 0;  ///< ticket, over all periods
  int number = 0;
  long long of_stage = 0;  ///< tiles
};
struct IsServedLater {
  bool operator()(Worker const& a, Worker const& b) const {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.last > b.last;
  }
};

class Dealer {
 public:
  Dealer(int workers, long long bytes_ahead)
      : bytes_ahead_(bytes_ahead), lists_(static_cast<std::size_t>(workers)) {
    for (int w = 0; w < workers; ++w) waiting_.push({0, w - workers, w, 0});
  }

  void deal(StageToDeal const& stage, int period, int number) {
    auto const workers = static_cast<long long>(lists_.size());
    auto most = (stage.tiles + workers - 1) / workers;
    if (stage.bytes > 0 && !stage.meet) most += bytes_ahead_ / stage.bytes;
    std::vector<Worker> served;  // as much as a worker may get of the stage
    for (long long tile = 0; tile < stage.tiles; ++tile, ++ticket_) {
      auto worker = waiting_.top();
      waiting_.pop();
      lists_[static_cast<std::size_t>(worker.number)].push_back({period, number, static_cast<int>(tile)});
      worker.bytes += static_cast<double>(stage.bytes);
      worker.last = ticket_;
      if (++worker.of_stage < most)
        waiting_.push(worker);
      else
        served.push_back(worker);
    }
    start_again(std::move(served));
  }

  bool is_even() const { return spread_ == 0; }
  long long tiles() const { return ticket_; }
  std::vector<std::vector<DealtTile>> const& lists() const { return lists_; }

 private:
  /// The next stage's counts, from bytes that stay small: sums of many periods would be rounded.
  void start_again(std::vector<Worker> all) {
    for (; !waiting_.empty(); waiting_.pop()) all.push_back(waiting_.top());
    auto const [least, largest] = std::minmax_element(
        all.begin(), all.end(), [](Worker const& a, Worker const& b) { return a.bytes < b.bytes; });
    double const base = least->bytes;
    spread_ = largest->bytes - base;
    for (auto& worker : all) {
      worker.bytes -= base;
      worker.of_stage = 0;
      waiting_.push(worker);
    }
  }

  long long bytes_ahead_;
  double spread_ = 0;
  long long ticket_ = 0;
  std::vector<std::vector<DealtTile>> lists_;
  std::priority_queue<Worker, std::vector<Worker>, IsServedLater> waiting_;
};

/// Rows of one length, shorter lists with tiles of -1 behind their end.
void put_in_rows(std::vector<std::vector<DealtTile>> const& lists, DealtTables& to) {
  std::size_t longest = 0;
  for (auto const& list : lists) longest = std::max(longest, list.size());
  for (auto const& list : lists) {
    to.tiles.insert(to.tiles.end(), list.begin(), list.end());
    to.tiles.resize(to.tiles.size() + longest - list.size());
  }
  to.pitch = static_cast<int>(longest);
}

}  // namespace

DealtTables deal(std::vector<StageToDeal> const& stages, int workers, long long bytes_ahead) {
  long long of_period = 0;
  for (auto const& stage : stages) of_period += stage.tiles;
  Dealer dealer(workers, bytes_ahead);
  DealtTables result;
  result.periods = 0;
  do {
    for (std::size_t s = 0; s < stages.size(); ++s)
      dealer.deal(stages[s], result.periods, static_cast<int>(s));
    ++result.periods;
  } while (!dealer.is_even() && dealer.tiles() + of_period <= k_listed_tiles);
  put_in_rows(dealer.lists(), result);
  return result;
}

DealtTables without(DealtTables const& dealt, DealtTile const& missed) {
  auto const pitch = static_cast<std::size_t>(dealt.pitch);
  auto const workers = pitch > 0 ? dealt.tiles.size() / pitch : 0;
  DealtTables result;
  int const times = missed.period / dealt.periods + 1;
  result.periods = times * dealt.periods;
  std::vector<std::vector<DealtTile>> lists(workers);
  for (std::size_t w = 0; w < workers; ++w)
    for (int time = 0; time < times; ++time)
      for (std::size_t i = 0; i < pitch; ++i) {
        auto tile = dealt.tiles[w * pitch + i];
        if (tile.tile < 0) break;
        tile.period += time * dealt.periods;
        if (!(tile == missed)) lists[w].push_back(tile);
      }
  put_in_rows(lists, result);
  return result;
}

DealtTables deal_as_queue(std::vector<StageToDeal> const& stages) {
  DealtTables result;
  result.shared = true;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (long long tile = 0; tile < stages[s].tiles; ++tile)
      result.tiles.push_back({0, static_cast<int>(s), static_cast<int>(tile)});
  result.pitch = static_cast<int>(result.tiles.size());
  return result;
}

}  // namespace tessera
