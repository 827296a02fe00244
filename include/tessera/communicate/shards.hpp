// SPDX-License-Identifier: Apache-2.0
// How rows are shared among the ranks of a group, and in which order a rank takes the shares.
#pragma once

namespace tessera {

/// Ranks of a group at most: GPUs of one host.
constexpr int k_most_ranks = 16;

struct RowRange {
  int begin = 0, end = 0;

  constexpr int rows() const { return end - begin; }
  bool operator==(RowRange const&) const = default;
};

/// Rows of every share but the last ones, which may have fewer or none.
constexpr int most_shard_rows(int rows, int ranks) { return (rows + ranks - 1) / ranks; }

/// The rows that a rank owns: equal shares from the first rank on, as collectives of a library have them once
/// the rows are padded.
constexpr RowRange shard_of(int rows, int ranks, int rank) {
  int const each = most_shard_rows(rows, ranks);
  auto const upto = [&](int n) { return n * each < rows ? n * each : rows; };
  return {upto(rank), upto(rank + 1)};
}

/// Whose share a rank computes in step 0, 1, ..., ranks - 1 where results are sent: the next rank's first, so
/// that no two ranks send to the same one, and its own last, whose results need no link.
constexpr int send_order(int ranks, int rank, int step) { return (rank + 1 + step) % ranks; }

/// Whose share a rank takes in step 0, 1, ... where operands arrive: its own first, which is there, then that
/// of the rank before, who sends to it first.
constexpr int receive_order(int ranks, int rank, int step) { return (rank - step + ranks) % ranks; }

}  // namespace tessera
