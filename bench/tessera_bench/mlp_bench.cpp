// SPDX-License-Identifier: Apache-2.0
#include "mlp_bench.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/mlp/candidates.hpp"
#include "peer_candidates.hpp"
#include "planned.hpp"
#include "same_tiles.hpp"
#include "src/bench/timer.hpp"

namespace tessera::bench {
namespace {

constexpr char const* chosen_group = "Tessera";
constexpr char const* steady_group = "Tessera for steady load";
constexpr char const* bursts_group = "Tessera for bursts";
constexpr char const* profiled_machine = "h200";  // whose kernels the catalogue of sm_90 knows

/// What of Tessera a candidate shows, from its name.
std::string group_of(mlp::Candidate const& candidate) {
  auto const has = [&](char const* word) { return candidate.name.find(word) != std::string::npos; };
  switch (candidate.source) {
    case mlp::Source::cublaslt: return "cuBLASLt";
    case mlp::Source::mixed: return "Tessera with cuBLASLt";
    case mlp::Source::skinny: return "Tessera one launch";
    case mlp::Source::gemm_sm90: break;
  }
  return has("; pdl")    ? "Tessera pdl"
         : has("; row")  ? "Tessera row"
         : has(" tiles") ? "Tessera tile"
                         : "Tessera stream";
}

}  // namespace

double SizeResult::best_peer(double Measurement::*time) const {
  double best = std::numeric_limits<double>::infinity();
  for (auto const& row : rows)
    if (!row.tessera && row.result.measurement.right) best = std::min(best, row.result.measurement.*time);
  return best;
}

double SizeResult::chosen(double Measurement::*time) const {
  for (auto const& row : rows)
    if (row.group == chosen_group) return row.result.measurement.*time;
  return std::numeric_limits<double>::infinity();
}

Expected<SizeResult> bench_size(mlp::Arena& arena, mlp::Shape const& shape, mlp::TuneOptions const& options) {
  auto const begin = std::chrono::steady_clock::now();
  SizeResult result;
  result.shape = shape;
  auto tuned = mlp::tune(arena, shape, options);
  if (!tuned) return tl::make_unexpected(tuned.error());
  result.tuned = std::move(*tuned);

  Timer timer(arena.stream(), arena.sets(), mlp::pieces_of_a_sample(shape, arena.sets()));
  std::vector<Contender> all;
  auto const add = [&](std::string const& group, bool tessera, std::string const& name) {
    if (auto candidate = mlp::find_candidate(shape, name))
      all.push_back({group, tessera, std::move(*candidate)});
  };
  add(chosen_group, true, result.tuned.size.candidate);
  // What would be taken if the load were known.
  std::vector<Measurement> finals;
  for (auto const& one : result.tuned.finalists) finals.push_back(one.measurement);
  for (auto const load : {Load::steady, Load::bursts})
    if (auto const decision = decide(finals, options.least_gain, load); decision.chosen != Decision::none)
      add(load == Load::steady ? steady_group : bursts_group, true, finals[decision.chosen].candidate);
  // The three best of cuBLASLt's pairs, and Tessera's best with each mechanism.
  for (auto const& one : result.tuned.finalists) {
    auto const candidate = mlp::find_candidate(shape, one.measurement.candidate);
    if (!candidate) continue;
    auto const group = group_of(*candidate);
    auto const seen =
        std::count_if(all.begin(), all.end(), [&](Contender const& c) { return c.group == group; });
    if (seen < (candidate->is_baseline() ? 3 : 1)) add(group, !candidate->is_baseline(), candidate->name);
  }
  if (auto planned = planned_candidate(shape, profiled_machine))
    all.push_back({"Tessera as planned", true, std::move(*planned)});
  auto same = same_tiles(arena, timer, shape, options.progress);
  std::move(same.begin(), same.end(), std::back_inserter(all));
  auto peers = peer_candidates(arena, timer, shape, options.progress);
  std::move(peers.begin(), peers.end(), std::back_inserter(all));

  // What is in several groups is measured once; the best of cuBLASLt's twice, which shows how far to trust
  // the rest.
  std::vector<mlp::Candidate> candidates;
  std::vector<std::size_t> place;
  for (auto const& one : all) {
    auto const known = std::find_if(candidates.begin(), candidates.end(),
                                    [&](mlp::Candidate const& c) { return c.name == one.candidate.name; });
    place.push_back(static_cast<std::size_t>(known - candidates.begin()));
    if (known == candidates.end()) candidates.push_back(one.candidate);
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].group == "cuBLASLt") {
      all.push_back({"cuBLASLt again", true, all[i].candidate});
      place.push_back(candidates.size());
      candidates.push_back(all[i].candidate);
      break;
    }
  if (options.progress) options.progress("all of them in turns", {});
  auto measured = mlp::measure(arena, shape, candidates, options.quick ? 7 : 21, options.quick ? 3 : 9);
  if (!measured) return tl::make_unexpected(measured.error());
  for (std::size_t i = 0; i < all.size(); ++i)
    result.rows.push_back({all[i].group, all[i].tessera, (*measured)[place[i]]});
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace tessera::bench
