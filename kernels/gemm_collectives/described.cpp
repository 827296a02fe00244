// SPDX-License-Identifier: Apache-2.0
#include "described.hpp"

#include <tessera/describe/dsl.hpp>

#include "problem_refusal.hpp"
#include "waves.hpp"

namespace tessera::gemm_collectives {
namespace {

/// The dimensions and extents that all ways have. "owner": whose rows.
struct Sizes {
  int ranks, rows, columns;
};

/// Words that count launches: what waits for one reads that of the launch before, and a later one says more.
StageHandle words(PipelineBuilder& one, std::string const& name, std::vector<DimExtent> const& grid) {
  auto const buffer = name + "_words";
  one.each_iteration(buffer);
  return one.stage(name, grid, {__FILE__, __LINE__}).output(buffer);
}

/// Each rank sends what it has of each owner's rows to the owner, who adds.
void sums_of_shards(PipelineBuilder& one, Sizes const& sizes, bool shares, LaunchOrder const& order) {
  auto [rank, owner, row, column] = one.dims("rank", "owner", "row", "column");
  auto product = one.stage(
      "product", {rank = sizes.ranks, owner = sizes.ranks, row = sizes.rows, column = sizes.columns});
  product.output("partial");
  auto send = one.stage("send", {rank = sizes.ranks, owner = sizes.ranks, row = sizes.rows});
  send.output("slots");
  auto sum = one.stage("sum", {owner = sizes.ranks, row = sizes.rows, column = sizes.columns});
  sum.output("sums");
  one.depends(send(rank, owner, row), product(rank, owner, row, all(column)));
  one.depends(sum(owner, row, column), send(all(rank), owner, row));
  auto ended = words(one, "ended", {rank = sizes.ranks});
  one.depends(ended(rank), send(rank, all(owner), all(row)), sum(rank, all(row), all(column)));
  if (order.stream) one.depends(product(rank, owner, row, column), earlier(ended(rank)));
  auto done = words(one, "done", {rank = sizes.ranks, owner = sizes.ranks});
  one.depends(done(rank, owner), sum(owner, all(row), all(column)));
  if (order.peers) one.depends(send(rank, owner, row), earlier(done(rank, owner)));
  if (!shares) return;
  auto share = one.stage("share", {rank = sizes.ranks, owner = sizes.ranks, row = sizes.rows});
  share.output("d");
  one.depends(share(rank, owner, row), sum(owner, row, all(column)));
  auto shared = words(one, "shared", {owner = sizes.ranks});
  one.depends(shared(owner), share(all(rank), owner, all(row)));
  if (order.peers) one.depends(sum(owner, row, column), earlier(shared(owner)));
  // What comes behind a launch on a rank finds all of its result there.
  auto whole = words(one, "whole", {rank = sizes.ranks});
  one.depends(whole(rank), share(rank, all(owner), all(row)));
  if (order.peers) one.depends(product(rank, owner, row, column), earlier(whole(rank)));
}

/// Each rank sends all it has to all as packets, and adds what comes.
void sums_of_words(PipelineBuilder& one, Sizes const& sizes, LaunchOrder const& order) {
  auto [rank, peer, row, column] = one.dims("rank", "peer", "row", "column");
  auto product = one.stage("product", {rank = sizes.ranks, row = sizes.rows, column = sizes.columns});
  product.output("partial");
  auto send = one.stage("send", {rank = sizes.ranks, peer = sizes.ranks});
  send.output("packets");
  auto sum = one.stage("sum", {rank = sizes.ranks, row = sizes.rows, column = sizes.columns});
  sum.output("d");
  one.depends(send(rank, peer), product(rank, all(row), all(column)));
  one.depends(sum(rank, row, column), send(all(rank), rank));
  one.copies("packets", order.packet_copies);
  auto ended = words(one, "ended", {rank = sizes.ranks});
  one.depends(ended(rank), send(rank, all(peer)), sum(rank, all(row), all(column)));
  if (order.stream) one.depends(product(rank, row, column), earlier(ended(rank)));
}

/// Each rank's rows come to all others, whose products follow.
void gathers(PipelineBuilder& one, Sizes const& sizes, LaunchOrder const& order) {
  auto [rank, source, row, column] = one.dims("rank", "source", "row", "column");
  auto send = one.stage("send", {rank = sizes.ranks, source = sizes.ranks});
  send.reads("rows", "a").output("slots");
  auto product = one.stage(
      "product", {rank = sizes.ranks, source = sizes.ranks, row = sizes.rows, column = sizes.columns});
  product.output("d");
  one.depends(product(rank, source, row, column), send(rank, source));
  auto begun = words(one, "begun", {rank = sizes.ranks});
  one.depends(begun(rank), product(rank, all(source), all(row), all(column)));
  if (order.peers) one.depends(send(rank, source), earlier(begun(rank)));
}

}  // namespace

Expected<Loop> describe(Problem const& problem, Way way, LaunchOrder const& order) {
  if (auto fine = check_problem(problem); !fine) return tl::make_unexpected(fine.error());
  if (way == Way::automatic || way == Way::sequential)
    return refused(problem, std::string("nothing describes the way \"") + to_string(way) + "\"",
                   "take one of words, fused, store, add, copy");
  PipelineBuilder one(to_string(problem));
  bool const whole = way == Way::words || way == Way::fused;
  int const rows = whole ? problem.rows : most_shard_rows(problem.rows, problem.ranks);
  Sizes const sizes{problem.ranks, rounded_up(rows, k_tile_rows),
                    rounded_up(problem.local_columns(), k_tile_columns)};
  if (whole)
    sums_of_words(one, sizes, order);
  else if (problem.collective == Collective::all_gather)
    gathers(one, sizes, order);
  else
    sums_of_shards(one, sizes, problem.collective == Collective::all_reduce, order);
  return one.build_loop();
}

}  // namespace tessera::gemm_collectives
