// SPDX-License-Identifier: Apache-2.0
#include "schedule_proof.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "described.hpp"
#include "described_order.hpp"
#include "schedule_events.hpp"

namespace tessera::gemm_collectives {
namespace {

Diagnostic stuck(Problem const& problem, Way way, std::string message) {
  Diagnostic one;
  one.code = "E0302";
  one.message = std::move(message);
  one.notes.push_back(to_string(problem) + ", " + to_string(way));
  one.suggestion = "let the library make the schedule; if it did, this is a defect of the library";
  return one;
}

/// On how many SMs a waiting kernel is, at most: another one may need an SM to itself.
int sms_of(Events::Kernel const& kernel, int sms) { return std::min(kernel.blocks, sms); }

}  // namespace

Expected<ScheduleProof> prove(Problem const& problem, Way way, int parts, ProofOptions const& options) {
  // What is said of a column is said of each.
  constexpr int k_columns = 512;
  auto narrow = problem;
  int const unit = 8 * problem.ranks;
  narrow.columns = std::min(problem.columns, k_columns / unit * unit);
  auto const loop = describe(narrow, way);
  if (!loop) return tl::make_unexpected(loop.error());
  auto steps = options.steps;
  for (int rank = static_cast<int>(steps.size()); rank < problem.ranks; ++rank)
    steps.push_back(steps_of(problem, way, parts, rank));
  Events const events(problem, steps, options.launches, options.kept_apart);
  ScheduleProof proof;
  proof.events = events.count();
  if (int const at = events.in_a_circle(); at >= 0)
    return refuse(stuck(problem, way, events.name(at) + " waits for something that waits for it"));

  // If anything is stuck, something is whose every reason has happened: a kernel that finds no SM. Those that
  // do not wait end, so the SMs are held by such as wait, and neither end before it begins nor begin behind
  // it.
  for (auto const& one : events.kernels()) {
    if (one.waits) ++proof.waits;
    if (one.threads == 0) continue;
    int held = 0;
    for (auto const& other : events.kernels()) {
      if (!other.waits || &other == &one || other.rank != one.rank) continue;
      if (!events.before(other.end, one.begin) && !events.before(one.end, other.begin))
        held += sms_of(other, options.sms);
    }
    if (held == 0) continue;
    ++proof.beside_waits;
    proof.held_sms = std::max(proof.held_sms, held);
    if (held >= options.sms)
      return refuse(
          stuck(problem, way,
                fmt::format("kernels that wait for peers can be on {} of {} SMs while {} has not begun", held,
                            options.sms, events.name(one.begin))));
  }

  auto const kept = dependences_kept(*loop, problem, events);
  if (!kept.broken.empty()) return refuse(stuck(problem, way, kept.broken));
  proof.dependences = kept.pairs;
  proof.text = fmt::format(
      "{} launches of {} ranks: {} begins and ends go in no circle; {} kernels wait for peers, and leave {} "
      "of {} SMs "
      "or more to the {} that may have to begin beside them; {} pairs of tiles are in order",
      options.launches, problem.ranks, proof.events, proof.waits, options.sms - proof.held_sms, options.sms,
      proof.beside_waits, proof.dependences);
  return proof;
}

}  // namespace tessera::gemm_collectives
