// SPDX-License-Identifier: Apache-2.0
#include "schedule_events.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fused_plan.hpp"

namespace tessera::gemm_collectives {
namespace {

// Words between ranks.
enum Kind { k_arrived, k_done, k_begun, k_packets, k_part };

// As src/communicate/gpu/transfers.cu launches them, at most.
constexpr int k_most_blocks = 2 * 132, k_shard_threads = 512, k_words_threads = 128, k_word_threads = 32;
// A product takes what it finds of the SMs.
constexpr int k_product_blocks = 132, k_product_threads = 384;
constexpr int k_bits = 64;

}  // namespace

int Events::add(std::string name) {
  names_.push_back(std::move(name));
  after_.emplace_back();
  return count() - 1;
}

void Events::order(int first, int second) {
  if (first >= 0 && first != second) after_[static_cast<std::size_t>(first)].push_back(second);
}

void Events::kernel(At const& at, int begin, int end, int blocks, int threads, bool waits) {
  kernels_.push_back({at.rank, begin, end, blocks, threads, waits});
}

void Events::tell_all(At const& at, int kind, int event) {
  for (int peer = 0; peer < problem_.ranks; ++peer)
    if (peer != at.rank) told_[{at.launch, at.rank, peer, kind, 0}] = event;
}

int Events::told(At const& at, int kind, std::string const& what) {
  int const event = add(what);
  for (int peer = 0; peer < problem_.ranks; ++peer)
    if (peer != at.rank) awaited_.push_back({{at.launch, peer, at.rank, kind, 0}, event});
  return event;
}

/// `last_main`, `last_side`: the last end in each stream. `main_begin`: the last begin in the main one.
void Events::put_step(At const& at, Step const& step, int& last_main, int& last_side, int& main_begin) {
  auto const name = fmt::format("\"{}\" of rank {} in launch {}", to_string(step), at.rank, at.launch);
  int& last = step.side ? last_side : last_main;
  if (step.act == Act::fork || step.act == Act::join) {
    int const event = add(name);
    order(last_main, event);
    order(last_side, event);
    (step.act == Act::fork ? last_side : last_main) = event;
    // A kernel behind an event does not start early.
    if (step.act == Act::join) main_begin = event;
    return;
  }
  int const begin = add(name), end = add("the end of " + name);
  // One that starts early begins with the one before, and ends behind it.
  order(step.early ? main_begin : last, begin);
  order(last, end);
  order(begin, end);
  last = end;
  if (!step.side) main_begin = begin;
  Done done{begin, end};
  auto const wait = [&](int from, int kind, std::string const& what) {
    int const event = told(at, kind, what + name);
    order(from, event);
    return event;
  };
  switch (step.act) {
    case Act::multiply:
    case Act::add: kernel(at, begin, end, k_product_blocks, k_product_threads, false); break;
    case Act::copy: kernel(at, begin, end, 0, 0, false); break;
    case Act::tell:
      kernel(at, begin, end, 0, 0, false);
      told_[{at.launch, at.rank, step.peer, k_part, step.part}] = end;
      break;
    case Act::await: {
      kernel(at, begin, end, 1, k_word_threads, true);
      awaited_.push_back({{at.launch, step.peer, at.rank, k_part, step.part}, end});
      break;
    }
    case Act::begin:
    case Act::finish: {
      int const kind = step.act == Act::begin ? k_begun : k_done;
      tell_all(at, kind, begin);
      kernel(at, begin, end, 1, k_word_threads, true);
      order(wait(begin, kind, "all are there for "), end);
      break;
    }
    case Act::exchange_words:
    case Act::fuse: {
      bool const fuses = step.act == Act::fuse;
      auto const plan = fused_plan(problem_.rows, problem_.columns);
      kernel(at, begin, end, fuses ? plan.blocks : k_most_blocks, fuses ? plan.threads() : k_words_threads,
             true);
      // Each block sends before it waits, and for the same block of the peers alone: so the first block that
      // has not ended on any rank has been sent what it waits for.
      int const sent = add("what is sent by " + name);
      order(begin, sent);
      tell_all(at, k_packets, sent);
      sent_[at] = {begin, sent};
      int const come = wait(sent, k_packets, "packets have come for ");
      order(come, end);
      done = {come, end};
      break;
    }
    case Act::sum_shard: {
      kernel(at, begin, end, k_most_blocks, k_shard_threads, true);
      tell_all(at, k_arrived, begin);
      int const come = wait(begin, k_arrived, "shares have come for ");
      int const summed = add("the sums of " + name);
      order(come, summed);
      tell_all(at, k_done, summed);
      order(wait(summed, k_done, "all are done with "), end);
      done = {come, summed};
      break;
    }
    case Act::fork:
    case Act::join: break;
  }
  done_[at] = done;
}

void Events::join_words() {
  for (auto const& [word, event] : awaited_) {
    auto const found = told_.find(word);
    // What nobody tells never happens: it is behind itself.
    if (found != told_.end())
      order(found->second, event);
    else
      after_[static_cast<std::size_t>(event)].push_back(event);
  }
}

/// Which events are before which, in an order in which they can happen.
void Events::close() {
  auto const all = static_cast<std::size_t>(count());
  std::vector<int> missing(all, 0), ready;
  for (auto const& behind : after_)
    for (int const event : behind) ++missing[static_cast<std::size_t>(event)];
  for (std::size_t event = 0; event < all; ++event)
    if (missing[event] == 0) ready.push_back(static_cast<int>(event));
  before_.assign(all, std::vector<std::uint64_t>((all + k_bits - 1) / k_bits));
  for (std::size_t next = 0; next < ready.size(); ++next) {
    auto const event = static_cast<std::size_t>(ready[next]);
    before_[event][event / k_bits] |= std::uint64_t{1} << event % k_bits;
    for (int const behind : after_[event]) {
      auto& bits = before_[static_cast<std::size_t>(behind)];
      for (std::size_t word = 0; word < bits.size(); ++word) bits[word] |= before_[event][word];
      if (--missing[static_cast<std::size_t>(behind)] == 0) ready.push_back(behind);
    }
  }
  auto const found = std::find_if(missing.begin(), missing.end(), [](int one) { return one > 0; });
  circle_ = found == missing.end() ? -1 : static_cast<int>(found - missing.begin());
}

bool Events::before(int first, int second) const {
  auto const bit = static_cast<std::size_t>(first);
  return (before_[static_cast<std::size_t>(second)][bit / k_bits] >> bit % k_bits & 1) != 0;
}

Events::Events(Problem const& problem, std::vector<std::vector<Step>> const& steps, int launches,
               bool kept_apart)
    : problem_(problem), steps_(steps), launches_(launches) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    int last_main = -1, last_side = -1, main_begin = -1;
    for (int launch = 0; launch < launches; ++launch) {
      // In other streams, with nothing between them.
      if (!kept_apart) last_main = last_side = main_begin = -1;
      // An event stands between launches: none starts early.
      main_begin = last_main;
      int step = 0;
      for (auto const& one : this->steps(rank))
        put_step({launch, rank, step++}, one, last_main, last_side, main_begin);
    }
  }
  join_words();
  close();
}

}  // namespace tessera::gemm_collectives
