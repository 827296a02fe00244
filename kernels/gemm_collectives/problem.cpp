// SPDX-License-Identifier: Apache-2.0
#include "problem.hpp"

#include <fmt/format.h>

#include "fused_plan.hpp"
#include "problem_refusal.hpp"
#include "waves.hpp"

namespace tessera::gemm_collectives {
namespace {

// Fewer rows of a shard are bound by the reading of weights, which each shard's product reads anew: on four
// H100 128 rows lost 1 to 32 % to the sequence (results/h100x4/gemm_collectives.json), 192 rows of one layer
// lost 6 % or won 4 to 10 % (results/h100x4/gemm_collectives_rows.json); on two H100 192 rows lost 4 to 13 %
// and 256 up to 2 % (results/h100x2/gemm_collectives_rows.json), on two H200 256 rows won 13 to 19 %
// (results/h200x2/gemm_collectives.json).
constexpr int k_least_shard_rows = 256;
// Sums that go to everybody at once put so many bytes more on a link than a library's ring, whose start
// they spare. On four H100 (results/h100x4/gemm_collectives.json) words won 5 to 8 % with 2.6 million and 0
// to 2 % with 3.9, and lost 1 to 3 % with 5.9; `fused` won 8 to 12 % with 2.9 and 3.3.
constexpr double k_most_more_bytes = 3.5e6;
// Fewer blocks cannot draw what the memory gives. A guess.
constexpr int k_least_fused_blocks = 64;
// Up to so many rows a product that stores into a peer's memory beats a copy behind it: at 512 by 4 to 7 % on
// two H200 (results/h200x2/gemm_collectives.json) and by 11 % on two H100, where it is 8 to 12 % behind at
// 768 and 1024 (results/h100x2/gemm_collectives_rows.json). Between them nothing was measured.
constexpr int k_most_store_rows = 512;
/// What packets to everybody put on a rank's link beyond a ring's share: four words carry three.
double more_than_a_ring(Problem const& problem) {
  constexpr double k_element = 2, k_packet = 4.0 / 3;
  return k_element * problem.rows * problem.columns * (problem.ranks - 1) * (k_packet - 2.0 / problem.ranks);
}

}  // namespace

char const* to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "gemm_all_reduce";
    case Collective::reduce_scatter: return "gemm_reduce_scatter";
    case Collective::all_gather: return "all_gather_gemm";
  }
  return "";
}

std::optional<Collective> collective_named(std::string const& name) {
  if (name == "gemm-all-reduce") return Collective::all_reduce;
  if (name == "gemm-reduce-scatter") return Collective::reduce_scatter;
  if (name == "all-gather-gemm") return Collective::all_gather;
  return std::nullopt;
}

char const* to_string(Way way) {
  switch (way) {
    case Way::automatic: return "automatic";
    case Way::words: return "words";
    case Way::fused: return "fused";
    case Way::store: return "store";
    case Way::add: return "add";
    case Way::copy: return "copy";
    case Way::sequential: return "sequential";
  }
  return "";
}

std::string to_string(Problem const& problem) {
  return fmt::format("{}{} of {} x {} x {} on {} GPUs", to_string(problem.collective),
                     problem.gelu ? " with GeLU" : "", problem.rows, problem.columns, problem.depth,
                     problem.ranks);
}

std::vector<Way> ways_of(Problem const& problem) {
  std::vector<Way> ways;
  if (problem.collective == Collective::all_reduce) {
    ways.push_back(Way::words);
    if (fused_plan(problem.rows, problem.columns).tiles > 0) ways.push_back(Way::fused);
  }
  if (problem.collective != Collective::all_gather) {
    ways.push_back(Way::store);
    if (problem.ranks == 2) ways.push_back(Way::add);
  }
  ways.push_back(Way::copy);
  ways.push_back(Way::sequential);
  return ways;
}

Expected<void> check_problem(Problem const& problem) {
  constexpr int k_most = 1 << 20;
  for (auto const& [name, size] : {std::pair{"rows", problem.rows}, std::pair{"columns", problem.columns},
                                   std::pair{"depth", problem.depth}})
    if (size < 1 || size > k_most)
      return refused(problem, fmt::format("a product of {} {}", size, name),
                     fmt::format("ask for 1 to {}", k_most));
  if (problem.ranks < 2 || problem.ranks > k_most_ranks)
    return refused(problem, fmt::format("a product on {} GPUs", problem.ranks),
                   fmt::format("take a group of 2 to {} GPUs", k_most_ranks));
  bool const gathers = problem.collective == Collective::all_gather;
  if (problem.gelu && !gathers)
    return refused(problem, "GeLU of partial sums", "take it behind the sum, or ask for an all-gather");
  int const spread = gathers ? problem.columns : problem.depth;
  char const* const name = gathers ? "columns" : "depth";
  if (spread % (8 * problem.ranks) != 0)
    return refused(problem,
                   fmt::format("{} {} is no multiple of {}: of 8 elements for each of {} GPUs", name, spread,
                               8 * problem.ranks, problem.ranks),
                   fmt::format("pad to a multiple of {}", 8 * problem.ranks));
  int const whole = gathers ? problem.depth : problem.columns;
  if (whole % 8 != 0)
    return refused(problem, fmt::format("rows of {} elements are not 16-byte aligned", whole),
                   "pad to a multiple of 8");
  return {};
}

Way choose_way(Problem const& problem, bool library) {
  bool const few = most_shard_rows(problem.rows, problem.ranks) < k_least_shard_rows;
  if (problem.collective == Collective::all_reduce && few && more_than_a_ring(problem) <= k_most_more_bytes)
    return fused_plan(problem.rows, problem.columns).blocks >= k_least_fused_blocks ? Way::fused : Way::words;
  if (few && library) return Way::sequential;
  if (problem.collective == Collective::all_gather) return Way::copy;
  if (problem.rows <= k_most_store_rows) return Way::store;
  int const half = most_shard_rows(problem.rows, 2 * problem.ranks);
  return problem.ranks == 2 && fills_its_waves(half, problem.columns) ? Way::add : Way::copy;
}

long long slot_elements(Problem const& problem) {
  long long const rows = most_shard_rows(problem.rows, problem.ranks);
  return rows * (problem.collective == Collective::all_gather ? problem.depth : problem.columns);
}

double wire_bytes(Problem const& problem) {
  constexpr double k_element = 2;  // bytes
  double const wide = problem.collective == Collective::all_gather ? problem.depth : problem.columns;
  double const phases = problem.collective == Collective::all_reduce ? 2 : 1;
  return phases * k_element * problem.rows * wide * (problem.ranks - 1) / problem.ranks;
}

}  // namespace tessera::gemm_collectives
