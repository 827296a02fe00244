// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "waves.hpp"

namespace tessera::gemm_collectives {
namespace {

/// Puts steps of one rank behind each other.
class Writer {
 public:
  Writer(Problem const& problem, int rank) : problem_(problem), rank_(rank) {}

  int ranks() const { return problem_.ranks; }
  RowRange shard(int rank) const { return shard_of(problem_.rows, problem_.ranks, rank); }
  RowRange all() const { return {0, problem_.rows}; }
  bool shares() const { return problem_.collective == Collective::all_reduce; }

  void put(Act act, bool side = false) { steps_.push_back({act, side}); }
  void multiply(int peer, RowRange const& rows, Place to, bool lets_next = false, bool early = false) {
    steps_.push_back({Act::multiply, false, peer, rows, Place::operand, to, 0, lets_next, early});
  }
  void add(int peer, RowRange const& rows, int part) {
    steps_.push_back({Act::add, false, peer, rows, Place::operand, Place::result, part});
  }
  void copy(int peer, RowRange const& rows, Place from, Place to) {
    steps_.push_back({Act::copy, true, peer, rows, from, to});
  }
  void word(Act act, bool side, int peer, int part) {
    steps_.push_back({act, side, peer, {}, Place::operand, Place::result, part});
  }

  /// Rows of the peers first; what is theirs goes straight into their memory, or by a copy engine beside the
  /// next product.
  void by_shards(bool copies) {
    bool first = true, copied = false;
    for (int step = 0; step < ranks(); ++step) {
      int const owner = send_order(ranks(), rank_, step);
      auto const rows = shard(owner);
      if (rows.rows() == 0) continue;
      bool const sends = copies && owner != rank_;
      multiply(owner, rows, sends ? Place::sent : Place::slot, owner != rank_, !first);
      first = false;
      if (!sends) continue;
      copied = true;
      put(Act::fork);
      copy(owner, rows, Place::sent, Place::slot);
    }
    if (copied) put(Act::join);
    put(Act::sum_shard);
  }

  /// The peer's rows first, in parts that a copy engine sends beside the next product; then the own ones,
  /// whose products add what has come.
  void by_adding(int parts) {
    int const peer = send_order(ranks(), rank_, 0);
    put(Act::fork);
    // A peer that has begun has read what it was sent the launch before.
    put(Act::begin, true);
    for (int n = 0; n < parts; ++n) {
      auto const rows = part_of(problem_, peer, parts, n);
      if (rows.rows() == 0) continue;
      multiply(peer, rows, Place::sent);
      put(Act::fork);
      copy(peer, rows, Place::sent, Place::slot);
      word(Act::tell, true, peer, n);
    }
    for (int n = 0; n < parts; ++n) {
      auto const rows = part_of(problem_, rank_, parts, n);
      if (rows.rows() == 0) continue;
      word(Act::await, false, peer, n);
      add(peer, rows, n);
      if (!shares()) continue;
      put(Act::fork);
      copy(peer, rows, Place::result, Place::result);
    }
    put(Act::join);
    if (shares()) put(Act::finish);
  }

  /// Own rows at once, while a copy engine sends them to the peers; a peer's when they have come.
  void by_gathering() {
    put(Act::fork);
    // A peer that has begun has read what it was sent the launch before.
    put(Act::begin, true);
    for (int step = 0; step + 1 < ranks() && shard(rank_).rows() > 0; ++step) {
      int const peer = send_order(ranks(), rank_, step);
      copy(peer, shard(rank_), Place::operand, Place::slot);
      word(Act::tell, true, peer, 0);
    }
    for (int step = 0; step < ranks(); ++step) {
      int const source = receive_order(ranks(), rank_, step);
      if (shard(source).rows() == 0) continue;
      if (source != rank_) word(Act::await, false, source, 0);
      multiply(source, shard(source), Place::result);
    }
    put(Act::join);
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  Problem const& problem_;
  int rank_;
  std::vector<Step> steps_;
};

char const* name_of(Act act) {
  switch (act) {
    case Act::multiply: return "multiply";
    case Act::add: return "add";
    case Act::copy: return "copy";
    case Act::exchange_words: return "exchange words";
    case Act::fuse: return "multiply and exchange words";
    case Act::sum_shard: return "sum of the shard";
    case Act::begin: return "begin together";
    case Act::finish: return "finish together";
    case Act::tell: return "tell";
    case Act::await: return "await";
    case Act::fork: return "fork";
    case Act::join: return "join";
  }
  return "";
}

char const* name_of(Place place) {
  switch (place) {
    case Place::operand: return "a";
    case Place::result: return "d";
    case Place::partial: return "partial sums";
    case Place::sent: return "what is sent";
    case Place::slot: return "the slot";
  }
  return "";
}

}  // namespace

RowRange part_of(Problem const& problem, int rank, int parts, int n) {
  auto const rows = shard_of(problem.rows, problem.ranks, rank);
  auto const tiles = shard_of(rounded_up(rows.rows(), k_tile_rows), parts, n);
  auto const upto = [&](int tile) { return std::min(rows.begin + tile * k_tile_rows, rows.end); };
  return {upto(tiles.begin), upto(tiles.end)};
}

std::vector<Step> steps_of(Problem const& problem, Way way, int parts, int rank) {
  Writer one(problem, rank);
  if (way == Way::words) {
    one.multiply(rank, one.all(), Place::partial);
    one.put(Act::exchange_words);
  } else if (way == Way::fused) {
    one.put(Act::fuse);
  } else if (way == Way::add) {
    one.by_adding(parts);
  } else if (problem.collective == Collective::all_gather) {
    one.by_gathering();
  } else {
    one.by_shards(way == Way::copy);
  }
  return one.take();
}

std::string to_string(Step const& step) {
  std::string text = name_of(step.act);
  bool const rows = step.rows.rows() > 0;
  if (rows) text += fmt::format(" {}:{}", step.rows.begin, step.rows.end);
  if (step.act == Act::copy) text += std::string(" from ") + name_of(step.from);
  if (rows && step.act != Act::add) text += std::string(" into ") + name_of(step.to);
  bool const words = step.act == Act::tell || step.act == Act::await;
  if (words) text += fmt::format(" part {}", step.part);
  if (step.peer >= 0 && step.act != Act::multiply)
    text +=
        fmt::format(" {} rank {}", step.act == Act::add || step.act == Act::await ? "from" : "to", step.peer);
  if (step.act == Act::multiply && (step.to == Place::slot || step.to == Place::sent))
    text += fmt::format(" of rank {}", step.peer);
  return text;
}

}  // namespace tessera::gemm_collectives
