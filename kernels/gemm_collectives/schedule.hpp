// SPDX-License-Identifier: Apache-2.0
// What a rank launches for a way of a product with its collective, in order: plain values, made without a
// GPU. Launches are made from it (collective_ways.cpp), and it is what is proven (schedule_proof.hpp).
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

enum class Act {
  multiply,        ///< `rows` of the product, into `to`
  add,             ///< the same, into the result, with what `peer` has sent of them
  copy,            ///< `rows` from `from` into `to` in the memory of `peer`, by a copy engine
  exchange_words,  ///< sends the partial sums to all as packets, takes theirs, adds
  fuse,            ///< multiplies, and does so too
  sum_shard,       ///< tells all that their rows have arrived, waits for its own, adds, waits until all have
  begin,           ///< tells all that this rank has begun, and waits for them
  finish,          ///< the same at the end
  tell,            ///< puts the launch's number into the word of `part` of `peer`, by a copy engine
  await,           ///< waits for the word of `part` that `peer` tells
  fork,            ///< the side stream goes on behind all that is in the main one
  join,            ///< and the other way round
};

enum class Place {
  operand,  ///< a; of a peer's rows: what has come of it
  result,   ///< d
  partial,  ///< partial sums of all rows
  sent,     ///< where a copy engine takes it from
  slot,     ///< of what this rank sends, in the memory of `peer`
};

struct Step {
  Act act = Act::multiply;
  bool side = false;  ///< in the side stream
  int peer = -1;      ///< of multiply: whose rows
  RowRange rows{};    ///< of the whole product
  Place from = Place::operand, to = Place::result;
  int part = 0;
  bool lets_next = false;  ///< the kernel behind it may start when its blocks have
  bool early = false;      ///< it is one that may
};

/// The n-th of `parts` products that a rank's own rows are cut into: whole tiles, but for the last one.
RowRange part_of(Problem const& problem, int rank, int parts, int n);

/// Not of Way::sequential, nor of the automatic one. `parts`: of Way::add.
std::vector<Step> steps_of(Problem const& problem, Way way, int parts, int rank);

/// "multiply 512:1024 into sent to rank 1", and what else there is; for reports and tests.
std::string to_string(Step const& step);

}  // namespace tessera::gemm_collectives
